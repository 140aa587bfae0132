/* The tag of control messages: docs/protocol.md, "Tag", and docs/tunnel.md. */
#ifndef TAG_H
#define TAG_H

#include <stdint.h>

enum { TAG_BYTES = 16 };

/* The first 16 bytes of a BLAKE3, keyed with zeros: the key of gateways that run
 * with lab_unkeyed. */
void tag_of(const uint8_t *bytes, uint32_t len, uint8_t tag[TAG_BYTES]);

#endif
