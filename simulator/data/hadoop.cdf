# Hadoop: flow sizes of a Hadoop cluster of Facebook (Roy et al., SIGCOMM 2015), in
# the form in which HPCC's evaluation uses it:
# alibaba-edu/High-Precision-Congestion-Control, traffic_gen/FbHdp_distribution.txt.
# 20 points, mean 120 420.8 bytes, largest 10 MB.
# <bytes> <cumulative percent>, linear between the points.
0 0
100 1
200 2
300 5
350 15
400 20
500 30
600 40
700 50
1000 60
2000 67
7000 70
30000 72
50000 82
80000 87
120000 90
300000 95
1000000 97.5
2000000 99
10000000 100
