/* The table of serve's options, from which --help, the man page and check-config are made. */
#include "config_internal.h"

/* Where the page is installed, relative to the program's folder; the build normally sets it. */
#ifndef HOLDFAST_WEB_DIR
#define HOLDFAST_WEB_DIR "../share/holdfast/web"
#endif

const struct option config_options[OPTION_COUNT + 1] = {
	[CONFIG] = {"--config", "FILE", "HOLDFAST_CONFIG", NULL,
		"read options from this file: lines NAME = VALUE, named as the options without their dashes. An option given\n"
		"      here or in the environment wins over the file; holdfast check-config prints the result"},
	[LISTEN] = {"--listen", "[https://]HOST:PORT|unix:PATH", "HOLDFAST_LISTEN",
		"127.0.0.1:8080",
		"an address to listen on; port 0 picks a free port. An address that other machines can reach uses TLS; a\n"
		"      loopback address uses TLS only if it begins with https://. unix: creates a socket that only its owner\n"
		"      can open and that needs no token. May be repeated; separate addresses in HOLDFAST_LISTEN with blanks"},
	[METRICS_LISTEN] = {"--metrics-listen", "HOST:PORT", "HOLDFAST_METRICS_LISTEN", NULL,
		"also serve GET /metrics here, without a token and without TLS, with /healthz and /readyz and nothing else.\n"
		"      Choose an address that only machines can reach that may read them"},
	[TLS_CERT] = {"--tls-cert", "FILE", "HOLDFAST_TLS_CERT", NULL,
		"the TLS certificate and its chain (PEM); SIGHUP reloads it and the key"},
	[TLS_KEY] = {"--tls-key", "FILE", "HOLDFAST_TLS_KEY", NULL,
		"the certificate's private key (PEM, no passphrase)"},
	[TLS] = {"--tls", "on|off", "HOLDFAST_TLS", "on",
		"off: serve plain HTTP to other machines, for use behind a proxy that handles TLS"},
	[URL] = {"--url", "URL", "HOLDFAST_URL", NULL,
		"the server's public URL, used in the links of holdfast url and holdfast token create; by default the\n"
		"      address it listens on"},
	[QR] = {"--qr", NULL, "HOLDFAST_QR", NULL,
		"print a QR code of the link that logs in, for a phone; only on a terminal. Needs an address that the phone\n"
		"      reaches: one of --listen, or --url"},
	[ALLOW_HOST] = {"--allow-host", "NAME", "HOLDFAST_ALLOW_HOST", NULL,
		"accept requests for this host name, besides localhost, 127.0.0.1 and [::1]; needed behind a proxy on this\n"
		"      machine. This and the next two may be repeated; separate values in the variable with blanks"},
	[ALLOW_ORIGIN] = {"--allow-origin", "ORIGIN", "HOLDFAST_ALLOW_ORIGIN", NULL,
		"let pages of this origin, such as https://app.example.org, use the API with a token"},
	[TRUST_PROXY] = {"--trust-proxy", "ADDRESS[/BITS]|unix", "HOLDFAST_TRUST_PROXY", NULL,
		"trust X-Forwarded-For and X-Forwarded-Proto from this proxy; unix: from clients of a unix socket,\n"
		"      which then need a token"},
	[AI_SDK_COOKIE] = {"--ai-sdk-cookie", NULL, "HOLDFAST_AI_SDK_COOKIE", NULL,
		"let the cookie of a login alone open /api/ai/, for pages on this origin that do not know the login's other half.\n"
		"      Browsers send cookies to every port of a host: anything else that listens on this host can use them to log in"},
	[PUSH_HOST] = {"--push-host", "NAME|*.NAME|NAME:PORT|off", "HOLDFAST_PUSH_HOST",
		"fcm.googleapis.com,updates.push.services.mozilla.com,*.push.apple.com,*.notify.windows.com",
		"a host of push services: push messages, which browsers ask for, go to these hosts only. May be repeated;\n"
		"      separate names in HOLDFAST_PUSH_HOST with blanks. By default the hosts of Chrome, Edge, Firefox and Safari;\n"
		"      off: no push messages"},
	[PUSH_ADDRESS] = {"--push-address", "ADDRESS[/BITS]", "HOLDFAST_PUSH_ADDRESS", NULL,
		"let such a host have this private address; otherwise the server connects only to public addresses. May be\n"
		"      repeated, in the same way"},
	[PUSH_CA] = {"--push-ca", "FILE", "HOLDFAST_PUSH_CA", NULL,
		"certificates (PEM) to trust for push services, besides the system's"},
	[WEBHOOK] = {"--webhook", "URL", "HOLDFAST_WEBHOOK", NULL,
		"send a signed message to this https URL when a session begins to wait for an answer, ends a turn, or its agent\n"
		"      fails; docs/webhooks.md. May be repeated; separate URLs in HOLDFAST_WEBHOOK with blanks"},
	[WEBHOOK_SECRET] = {"--webhook-secret", "FILE", "HOLDFAST_WEBHOOK_SECRET", NULL,
		"the secrets that sign the messages, one per line: whsec_ and 24 to 64 bytes in base64. Each message is signed\n"
		"      with all of them, so that receivers can change to a new one. SIGHUP reads the file again"},
	[WEBHOOK_ADDRESS] = {"--webhook-address", "ADDRESS[/BITS]", "HOLDFAST_WEBHOOK_ADDRESS",
		NULL,
		"let the name in a webhook's URL have this private address; otherwise the server connects only to public\n"
		"      addresses, and to those written in a URL itself. May be repeated, in the same way"},
	[WEBHOOK_CA] = {"--webhook-ca", "FILE", "HOLDFAST_WEBHOOK_CA", NULL,
		"certificates (PEM) to trust for webhooks, besides the system's"},
	[WEBHOOK_HTTP] = {"--webhook-http", NULL, "HOLDFAST_WEBHOOK_HTTP", NULL,
		"let webhooks on other machines have http URLs; anyone in between can then read and withhold messages"},
	[COMPRESSION] = {"--compression", "on|off", "HOLDFAST_COMPRESSION", "on",
		"off: do not compress messages, pages and files, for use behind a proxy that does"},
	[DATA] = {"--data", "DIR", "HOLDFAST_DATA", "./data",
		"the directory for sessions; created if it does not exist"},
	[STORE] = {"--store", "ADDRESS", "HOLDFAST_STORE", NULL,
		"keep sessions in this PostgreSQL database (15 or newer), such as postgresql://holdfast@localhost/holdfast,\n"
		"      instead of in --data, which then contains only this server's secrets and logins. Passwords belong in\n"
		"      ~/.pgpass or PGPASSWORD. One server at a time, or several with --node-listen; see docs/postgresql.md"},
	[NODE_LISTEN] = {"--node-listen", "ADDRESS:PORT", "HOLDFAST_NODE_LISTEN", NULL,
		"with --store, share the database with other servers (nodes), each with its own --data: every node serves\n"
		"      every session. Nodes reach this one at this address, unencrypted: use a private network"},
	[NODE_ADDRESS] = {"--node-address", "HOST:PORT", "HOLDFAST_NODE_ADDRESS", NULL,
		"the address at which other nodes reach this one, if that is not the one of --node-listen"},
	[AGENT] = {"--agent", "CMD", "HOLDFAST_AGENT", NULL,
		"a command that speaks ACP on its stdin and stdout; started with a session's first prompt"},
	[AGENTS] = {"--agents", "FILE", "HOLDFAST_AGENTS", NULL,
		"instead of --agent: a file (JSON) of named agents with their directories, from which a new session\n"
		"      chooses; docs/agents.md has the format"},
	[AGENT_ENV] = {"--agent-env", "NAME|NAME=VALUE|PREFIX*|*", "HOLDFAST_AGENT_ENV", NULL,
		"pass this environment variable to agents, or set it for them; * passes all. May be repeated; separate\n"
		"      entries in HOLDFAST_AGENT_ENV with commas. Agents always get PATH HOME USER LOGNAME SHELL LANG LC_*\n"
		"      TZ TERM TMPDIR"},
	[AGENT_MEMORY] = {"--agent-memory", "SIZE", "HOLDFAST_AGENT_MEMORY", NULL,
		"the memory that an agent and everything it starts may use together, such as 2G; beyond it they are killed"},
	[AGENT_PROCESSES] = {"--agent-processes", "N", "HOLDFAST_AGENT_PROCESSES", NULL,
		"the processes and threads that they may have at once; 0: no limit. 4096 if not set"},
	[AGENT_CGROUP] = {"--agent-cgroup", "auto|off|DIR", "HOLDFAST_AGENT_CGROUP", "auto",
		"how the two limits are enforced. DIR: by control groups (v2) that the server creates in this delegated\n"
		"      directory; off: by a check once a second; auto: by control groups if the server's own is delegated to\n"
		"      it, otherwise by the check"},
	[CWD] = {"--cwd", "DIR", "HOLDFAST_CWD", ".",
		"the agents' working directory, and the only place where they can read and write files through Holdfast"},
	[SANDBOX] = {"--sandbox", NULL, "HOLDFAST_SANDBOX", NULL,
		"confine agents and their commands to the files below --cwd, a TMPDIR of their own and the system's programs,\n"
		"      read-only (Landlock); docs/sandbox.md says what this protects"},
	[SANDBOX_READ] = {"--sandbox-read", "PATH", "HOLDFAST_SANDBOX_READ", NULL,
		"also let them read and run this. May be repeated; separate paths in HOLDFAST_SANDBOX_READ with commas"},
	[SANDBOX_WRITE] = {"--sandbox-write", "PATH", "HOLDFAST_SANDBOX_WRITE", NULL,
		"also let them read, run and change this. May be repeated, in the same way"},
	[SANDBOX_SOCKETS] = {"--sandbox-sockets", NULL, "HOLDFAST_SANDBOX_SOCKETS", NULL,
		"let them use Unix sockets, including those of programs outside the sandbox, such as D-Bus or Docker"},
	[SANDBOX_NAMESPACES] = {"--sandbox-user-namespaces", NULL,
		"HOLDFAST_SANDBOX_USER_NAMESPACES", NULL,
		"let them make user namespaces, for sandboxes of their own such as Chromium's; docs/sandbox.md says what that\n"
		"      opens. Not for a server that runs as root"},
	[SECCOMP] = {"--seccomp", "auto|on|off", "HOLDFAST_SECCOMP", "auto",
		"whether the kernel forbids the server itself to start programs, signal other processes and more, once it has\n"
		"      started; auto: if the kernel can; on: do not start without it"},
	[AUTH] = {"--auth", "on|off", "HOLDFAST_AUTH", "on",
		"off: anyone who can connect may do everything, including running commands through the agent; loopback only"},
	[AUTH_SECRET] = {"--auth-secret", "FILE", "HOLDFAST_AUTH_SECRET", NULL,
		"the secret of an application that issues its own tokens (JWT, HS256); at least 32 bytes"},
	[AUTH_PUBLIC_KEY] = {"--auth-public-key", "FILE", "HOLDFAST_AUTH_PUBLIC_KEY", NULL,
		"or the application's public key (PEM): RSA for RS256, P-256 for ES256"},
	[AUTH_ISSUER] = {"--auth-issuer", "NAME", "HOLDFAST_AUTH_ISSUER", NULL,
		"the \"iss\" that the application's tokens must have"},
	[AUTH_AUDIENCE] = {"--auth-audience", "NAME", "HOLDFAST_AUTH_AUDIENCE", NULL,
		"the \"aud\" that they must have"},
	[WEB] = {"--web", "DIR", "HOLDFAST_WEB", HOLDFAST_WEB_DIR,
		"the static files to serve at /; by default the installed page, found relative to the program. '' serves none"},
	[HIGHLIGHT] = {"--highlight", "DIR", "HOLDFAST_HIGHLIGHT",
		"/usr/share/javascript/highlight.js",
		"the directory of highlight.js, which colours code in the page; without it code is plain"},
	[DURABILITY] = {"--durability", "fsync|write", "HOLDFAST_DURABILITY", "fsync",
		"fsync: events are on disk before they are acknowledged or shown; write: they survive a crash of the server, but\n"
		"      not of the machine"},
	[KEEP_EVENTS] = {"--keep-events", "N", "HOLDFAST_KEEP_EVENTS", NULL,
		"keep the newest N events of each session and prune older ones; no event is renumbered"},
	[KEEP_BYTES] = {"--keep-bytes", "SIZE", "HOLDFAST_KEEP_BYTES", NULL,
		"keep the newest events of each session as far as their lines in the log take SIZE, such as 10M, and prune older ones"},
	[KEEP_DAYS] = {"--keep-days", "N", "HOLDFAST_KEEP_DAYS", NULL,
		"prune events older than N days; if several of the three options are given, an event is pruned when any of them applies"},
	[MAX_DISK] = {"--max-disk", "SIZE", "HOLDFAST_MAX_DISK", NULL,
		"the maximum size of the data directory, such as 500M; beyond it new input is refused with disk_full, and\n"
		"      everything can still be read"},
	[DRAIN_TIMEOUT] = {"--drain-timeout", "TIME", "HOLDFAST_DRAIN_TIMEOUT", NULL,
		"how long the server may take to stop, such as 30s (10s if not set); agents that have not ended by then are killed"},
	[LIMIT] = {"--limit", "NAME=VALUE[,NAME=VALUE]...", "HOLDFAST_LIMIT", NULL,
		"set a limit, such as soft_flush_ms=500,block_size=128K. May be repeated; holdfast limits lists all limits and\n"
		"      their defaults"},
	[LOG_LEVEL] = {"--log-level", "error|warn|info|debug", "HOLDFAST_LOG_LEVEL", "info",
		"how much to log on stderr; SIGHUP reads it again from the file of --config"},
	[LOG_FORMAT] = {"--log-format", "text|json", "HOLDFAST_LOG_FORMAT", "text",
		"json: each line on stderr is an object with ts, level, msg and, if it is about a session, session"},
};
