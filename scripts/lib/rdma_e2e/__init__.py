"""Real Soft-RoCE between two QEMU guests through two gateways, for `scripts/rdma-e2e`."""
