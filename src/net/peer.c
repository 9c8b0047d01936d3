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
	int kept; /* of a unix socket: bytes that its peer has not read */
	if (is_unix(fd) && ioctl(fd, SIOCOUTQ, &kept) == 0) {
		return (uint64_t)kept;
	}
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked)) {
		return 0;
	}
	return info.tcpi_bytes_acked;
}

size_t peer_address(int fd, unsigned char address[PEER_ADDRESS_MAX])
{
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof(peer);
	if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0) {
		peer.ss_family = AF_UNSPEC;
	}
	if (peer.ss_family == AF_INET) {
		memcpy(address, &((struct sockaddr_in *)&peer)->sin_addr, 4);
		return 4;
	}
	const struct in6_addr *v6 = &((struct sockaddr_in6 *)&peer)->sin6_addr;
	if (peer.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(v6)) {
		memcpy(address, v6->s6_addr + 12, 4);
		return 4;
	}
	if (peer.ss_family == AF_INET6) {
		memcpy(address, v6->s6_addr, 8);
		return 8;
	}
	address[0] = 'u';
	return 1;
}
