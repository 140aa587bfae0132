"""Real Soft-RoCE between two QEMU guests through two gateways: what `scripts/rdma-e2e` starts."""
