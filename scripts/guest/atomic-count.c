/* Counts on a word of another host by RDMA atomics, and checks that each was
 * executed once and in turn: operation number n must find n.
 *
 *   atomic-count                        the host of the word, for one client; until it is killed
 *   atomic-count HOST add|swap COUNT    its client
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define PORT "7471"
/* Operations on their way: as many as Soft-RoCE answers for at a time. */
#define DEPTH 16

/* Where the word is: the private data of the host's answer. */
struct place {
	uint64_t address;
	uint32_t key;
};

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static struct rdma_cm_id *endpoint(const char *host)
{
	struct rdma_addrinfo hints = {
		.ai_port_space = RDMA_PS_TCP,
		.ai_flags = host ? 0 : RAI_PASSIVE,
	};
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = DEPTH + 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo *found;
	struct rdma_cm_id *id;

	must(!rdma_getaddrinfo(host, PORT, &hints, &found), "address");
	must(!rdma_create_ep(&id, found, NULL, &attr), "endpoint");
	rdma_freeaddrinfo(found);
	return id;
}

static struct rdma_conn_param parameters(const void *data, size_t length)
{
	return (struct rdma_conn_param) {
		.private_data = data,
		.private_data_len = (uint8_t)length,
		.responder_resources = DEPTH,
		.initiator_depth = DEPTH,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

static _Noreturn void host(void)
{
	static uint64_t word, goodbye;
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct rdma_cm_id *listener = endpoint(NULL), *id;
	struct ibv_wc done;

	must(!rdma_listen(listener, 1), "listening");
	must(!rdma_get_request(listener, &id), "a client");
	/* With a channel of its own, rdma_accept() does not wait for the client's RTU: that may be lost on a
	 * LAN, and comes again only when the client is long done. */
	must(!rdma_migrate_id(id, rdma_create_event_channel()), "events");
	struct ibv_mr *open = ibv_reg_mr(id->pd, &word, sizeof(word), access);
	struct ibv_mr *own = ibv_reg_mr(id->pd, &goodbye, sizeof(goodbye), IBV_ACCESS_LOCAL_WRITE);
	must(open && own, "memory");
	must(!rdma_post_recv(id, NULL, &goodbye, sizeof(goodbye), own), "a receive");
	struct place place = { (uintptr_t)&word, open->rkey };
	struct rdma_conn_param accept = parameters(&place, sizeof(place));
	must(!rdma_accept(id, &accept), "accepting");
	must(rdma_get_recv_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS, "the client's goodbye");
	printf("the word is %" PRIu64 ", the client counted to %" PRIu64 "\n", word, goodbye);
	fflush(stdout);
	/* The queue pair has to stay: the acknowledgement of the goodbye may be lost. */
	for (;;)
		pause();
}

static int client(const char *name, int swap, uint64_t count)
{
	/* What each operation found, then the goodbye. */
	static uint64_t found[DEPTH + 1];
	struct rdma_cm_id *id = endpoint(name);
	struct rdma_conn_param connect = parameters(NULL, 0);
	struct place place;
	struct ibv_wc done;

	must(!rdma_connect(id, &connect), "connecting");
	must(id->event->param.conn.private_data_len >= sizeof(place), "the host's answer");
	memcpy(&place, id->event->param.conn.private_data, sizeof(place));
	struct ibv_mr *own = ibv_reg_mr(id->pd, found, sizeof(found), IBV_ACCESS_LOCAL_WRITE);
	must(own != NULL, "memory");

	uint64_t wrong = 0;
	for (uint64_t posted = 0, completed = 0; completed < count;) {
		for (; posted < count && posted - completed < DEPTH; posted++) {
			struct ibv_sge into = { (uintptr_t)&found[posted % DEPTH], sizeof(found[0]), own->lkey };
			struct ibv_send_wr operation = {
				.sg_list = &into,
				.num_sge = 1,
				.opcode = swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
				.wr.atomic = {
					.remote_addr = place.address,
					.compare_add = swap ? posted : 1,
					.swap = posted + 1,
					.rkey = place.key,
				},
			}, *refused;
			must(!ibv_post_send(id->qp, &operation, &refused), "posting");
		}
		must(rdma_get_send_comp(id, &done) == 1, "a completion");
		if (done.status != IBV_WC_SUCCESS) {
			printf("operation %" PRIu64 ": %s\n", completed, ibv_wc_status_str(done.status));
			return 1;
		}
		if (found[completed % DEPTH] != completed && wrong++ == 0)
			printf("operation %" PRIu64 " found %" PRIu64 "\n", completed, found[completed % DEPTH]);
		completed++;
	}
	found[DEPTH] = count;
	must(!rdma_post_send(id, NULL, &found[DEPTH], sizeof(found[0]), own, 0), "posting");
	must(rdma_get_send_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS, "the goodbye");
	printf("%" PRIu64 " operations, %" PRIu64 " of them found what they should not\n", count, wrong);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	if (argc == 1)
		host();
	if (argc == 4 && (!strcmp(argv[2], "add") || !strcmp(argv[2], "swap")))
		return client(argv[1], argv[2][0] == 's', strtoull(argv[3], NULL, 10));
	fprintf(stderr, "usage: atomic-count [HOST add|swap COUNT]\n");
	return 2;
}
