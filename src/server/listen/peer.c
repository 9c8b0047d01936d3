#include "peer.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static bool is_unix(int fd)
{
	int domain;
	socklen_t len = sizeof(domain);
	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX;
}

uint64_t peer_bytes_taken(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	int kept; /* bytes that the peer of a unix socket has not read */
	if (is_unix(fd) && ioctl(fd, SIOCOUTQ, &kept) == 0) {
		return (uint64_t)kept;
	}
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked)) {
		return 0;
	}
	return info.tcpi_bytes_acked;
}

int64_t peer_silent_ms(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		(!info.tcpi_unacked && !info.tcpi_notsent_bytes)) {
		return -1;
	}
	return info.tcpi_last_ack_recv;
}

struct address peer_address(int fd)
{
	struct sockaddr_storage peer = {0};
	struct address address = {{0}};
	socklen_t len = sizeof(peer);
	if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0) {
		peer.ss_family = AF_UNSPEC;
	}
	if (peer.ss_family == AF_INET) {
		address.bytes[10] = address.bytes[11] = 0xff;
		memcpy(address.bytes + 12, &((struct sockaddr_in *)&peer)->sin_addr, 4);
	} else if (peer.ss_family == AF_INET6) {
		memcpy(address.bytes, &((struct sockaddr_in6 *)&peer)->sin6_addr, 16);
	}
	return address;
}
