"""Two pairs of boxes between routers with ECMP, each box restarted in turn while queue pairs transfer."""
