# Web search: flow sizes of a search engine's back end, first measured for DCTCP
# (Alizadeh et al., SIGCOMM 2010), in the form in which HPCC's evaluation uses it:
# alibaba-edu/High-Precision-Congestion-Control, traffic_gen/WebSearch_distribution.txt.
# 12 points, mean 1 711 250 bytes, largest 30 MB.
# <bytes> <cumulative percent>, linear between the points.
0 0
10000 15
20000 20
30000 30
50000 40
80000 53
200000 60
1000000 70
2000000 80
5000000 90
10000000 97
30000000 100
