/* Nanoseconds per call on descriptors that the shim follows and on others; calls.py runs it with the shim and without.
 *
 * usage: calls PORT OTHER COUNT: listens on both ports of 127.0.0.1; the shim, when it is loaded, follows connections on
 * PORT. Prints "name nanoseconds" for each kind of call. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 4096 };

static char buffer[BURST];

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void all(ssize_t got, ssize_t wanted)
{
	if (got != wanted)
		err(1, "%zd of %zd bytes", got, wanted);
}

static struct sockaddr_in at(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static int listening(int port)
{
	struct sockaddr_in address = at(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 128))
		err(1, "listen");
	return fd;
}

/* A client of a port; one that is closed leaves no port in TIME_WAIT. */
static int connected(int port)
{
	struct sockaddr_in address = at(port);
	struct linger reset = {.l_onoff = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
		err(1, "connect");
	return fd;
}

/* Reads of one byte that is there: all but the first belong to a request that has begun. */
static double reads(int server, int client, int count)
{
	double took = 0;
	for (int done = 0; done < count; done += BURST) {
		all(write(client, buffer, BURST), BURST);
		all(recv(server, buffer, BURST, MSG_PEEK | MSG_WAITALL), BURST);
		double begin = now_ns();
		for (int i = 0; i < BURST; i++)
			all(read(server, buffer, 1), 1);
		took += now_ns() - begin;
	}
	return took;
}

/* Writes of one byte, to a client that reads them afterwards. */
static double writes(int server, int client, int count)
{
	double took = 0;
	for (int done = 0; done < count; done += BURST) {
		double begin = now_ns();
		for (int i = 0; i < BURST; i++)
			all(write(server, "x", 1), 1);
		took += now_ns() - begin;
		all(recv(client, buffer, BURST, MSG_WAITALL), BURST);
	}
	return took;
}

/* Whole requests: one read and one write of 100 bytes each, every answer counted. */
static double requests(int server, int client, int count)
{
	double took = 0;
	for (int i = 0; i < count; i++) {
		all(send(client, buffer, 100, 0), 100);
		double begin = now_ns();
		all(read(server, buffer, 100), 100);
		all(write(server, buffer, 100), 100);
		took += now_ns() - begin;
		all(recv(client, buffer, 100, MSG_WAITALL), 100);
	}
	return took;
}

/* As requests, but HTTP as browsers and servers speak it, on a connection of its own: what is followed are its heads too. */
static double pages(int server, int client, int count)
{
	static const char request[] =
	    "GET /images/icons/arrow-right.svg HTTP/1.1\r\n"
	    "Host: www.example.org\r\n"
	    "Connection: keep-alive\r\n"
	    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\n"
	    "Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8\r\n"
	    "Sec-Fetch-Site: same-origin\r\n"
	    "Sec-Fetch-Mode: no-cors\r\n"
	    "Sec-Fetch-Dest: image\r\n"
	    "Referer: http://www.example.org/index.html\r\n"
	    "Accept-Encoding: gzip, deflate, br, zstd\r\n"
	    "Accept-Language: en-GB,en;q=0.9\r\n"
	    "Cookie: session=0123456789abcdef0123456789abcdef\r\n\r\n";
	static const char answer[] =
	    "HTTP/1.1 200 OK\r\n"
	    "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
	    "Server: Apache/2.4.62 (Debian)\r\n"
	    "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
	    "ETag: \"64-5f1c0f5c5c0c0\"\r\n"
	    "Accept-Ranges: bytes\r\n"
	    "Content-Length: 100\r\n"
	    "Keep-Alive: timeout=5, max=100\r\n"
	    "Connection: Keep-Alive\r\n"
	    "Content-Type: image/svg+xml\r\n\r\n";
	enum { ASKED = sizeof request - 1, HEAD = sizeof answer - 1, BODY = 100 };
	double took = 0;
	for (int i = 0; i < count; i++) {
		struct iovec parts[] = {{(void *)answer, HEAD}, {buffer, BODY}};
		all(send(client, request, ASKED, 0), ASKED);
		double begin = now_ns();
		all(read(server, buffer + BODY, BURST - BODY), ASKED);
		all(writev(server, parts, 2), HEAD + BODY);
		took += now_ns() - begin;
		all(recv(client, buffer + BODY, HEAD + BODY, MSG_WAITALL), HEAD + BODY);
	}
	return took;
}

/* accept4 and close; the clients are connected before and closed after. */
static double accepts(int listener, int port, int count)
{
	double took = 0;
	int clients[64];
	for (int done = 0; done < count; done += 64) {
		for (int i = 0; i < 64; i++)
			clients[i] = connected(port);
		double begin = now_ns();
		for (int i = 0; i < 64; i++)
			if (close(accept4(listener, NULL, NULL, SOCK_CLOEXEC)))
				err(1, "accept");
		took += now_ns() - begin;
		for (int i = 0; i < 64; i++)
			close(clients[i]);
	}
	return took;
}

static void device(int count)
{
	int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
	double begin = now_ns();
	for (int i = 0; i < count; i++)
		all(read(zero, buffer, 1), 1);
	printf("read_device %.2f\n", (now_ns() - begin) / count);
	begin = now_ns();
	for (int i = 0; i < count; i++)
		all(write(null, buffer, 1), 1);
	printf("write_device %.2f\n", (now_ns() - begin) / count);
}

static void network(const char *name, int port, int count)
{
	int listener = listening(port), on = 1;
	int client = connected(port), server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	int rounded = (count + BURST - 1) / BURST * BURST;
	printf("read_%s %.2f\n", name, reads(server, client, count) / rounded);
	printf("write_%s %.2f\n", name, writes(server, client, count) / rounded);
	printf("request_%s %.2f\n", name, requests(server, client, count) / count);
	int other_client = connected(port), page_server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	setsockopt(page_server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	printf("page_%s %.2f\n", name, pages(page_server, other_client, count) / count);
	close(other_client);
	close(page_server);
	int few = count / 10 / 64 * 64 + 64;
	printf("accept_close_%s %.2f\n", name, accepts(listener, port, few) / few);
	close(client);
	close(server);
	close(listener);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		errx(2, "usage: calls PORT OTHER COUNT");
	int count = atoi(argv[3]);
	memset(buffer, 'x', sizeof buffer);
	device(count);
	network("followed", atoi(argv[1]), count);
	network("other", atoi(argv[2]), count);
	return 0;
}
