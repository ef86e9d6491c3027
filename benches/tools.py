"""See tools.sh: tools.py INQUEST INTEROP_FOLDER"""
import atexit, glob, http.client, json, os, platform, re, shutil, signal, statistics, subprocess, sys, tempfile, time

binary, interop = os.path.abspath(sys.argv[1]), sys.argv[2]
SECONDS, ROUNDS, CALLERS = int(os.environ.get("SECONDS_EACH", 5)), int(os.environ.get("ROUNDS", 3)), (1, 16, 64)
here = os.path.dirname(os.path.abspath(__file__))
work = tempfile.mkdtemp(prefix="inquest-bench-")
atexit.register(shutil.rmtree, work)


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def out(*args: str) -> str:
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout.strip()


def call(tool: str, arguments: dict) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})


keys = f"{work}/keys"
token = out(binary, "token", "--keys", keys, "--tenant", "demo", "--role", "analyst", "--valid-for", "15m").splitlines()[-1]
kubeconfig = f"{work}/kubeconfig"
with open(kubeconfig, "w") as f:
    json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "none", "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}], "contexts": [{"name": "none", "context": {"cluster": "none", "user": "me"}}], "users": [{"name": "me", "user": {"token": "x"}}]}, f)
theirs = glob.glob(f"{interop}/node_modules/kubernetes-mcp-server-linux-*/bin/kubernetes-mcp-server-linux-*")[0]

# Name, command by port, the path that says it is ready, headers, the call.
SERVERS = [
    ("inquest (metrics)", lambda p: [binary, "tools", "metrics", "--mock-backend", "always", "--listen", f"127.0.0.1:{p}", "--jwks-file", f"{keys}/jwks.json"], "/health", {"Authorization": f"Bearer {token}"},
     call("get_metric", {"metric_name": "revenue", "date_range": {"start": "2026-08-01", "end": "2026-08-07"}, "dimensions": ["date"]})),
    ("FastMCP 4.2.3", lambda p: [f"{interop}/venv/bin/python", f"{here}/../tests/interop/server.py", str(p), "stateless"], "/mcp", {}, call("forecast", {"city": "Ulm", "days": 7})),
    ("kubernetes-mcp-server 0.0.67", lambda p: [theirs, "--port", str(p), "--read-only", "--stateless", "--bind-address", "127.0.0.1", "--kubeconfig", kubeconfig], "/healthz", {}, call("configuration_view", {})),
]


class Running:
    def __init__(self, server):
        self.name, command, self.ready, self.headers, self.body = server
        self.port = free_port()
        begun = time.perf_counter()
        self.process = subprocess.Popen(command(self.port), stdout=open(f"{work}/log", "w"), stderr=subprocess.STDOUT, start_new_session=True)
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
                connection.request("GET", self.ready)
                connection.getresponse()
                break
            except OSError:
                if self.process.poll() is not None or time.perf_counter() - begun > 60:
                    sys.exit(f"{self.name} did not start: {open(f'{work}/log').read()}")
                time.sleep(0.001)
        self.cold = (time.perf_counter() - begun) * 1000

    def memory(self, field: str) -> float:
        """MB of the whole group: a server may have workers."""
        total = 0
        for pid in out("pgrep", "-g", str(self.process.pid)).split():
            total += int(re.search(rf"{field}:\s+(\d+)", open(f"/proc/{pid}/status").read())[1])
        return total / 1024

    def once(self) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        connection.request("POST", "/mcp", self.body, {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self.headers})
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200 or '"isError":true' in text or '"error"' in text:
            sys.exit(f"{self.name}: HTTP {answer.status} {text[:400]}")
        return text

    def load(self, callers: int) -> tuple[float, float, float]:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self.headers}
        with open(f"{work}/wrk.lua", "w") as f:
            f.write('wrk.method = "POST"\nwrk.body = [==[' + self.body + "]==]\n" + "".join(f'wrk.headers["{k}"] = "{v}"\n' for k, v in headers.items()))
        text = out("wrk", "-t1", f"-c{callers}", f"-d{SECONDS}s", "--latency", "-s", f"{work}/wrk.lua", f"http://127.0.0.1:{self.port}/mcp")
        if "Non-2xx" in text or "Socket errors" in text:
            sys.exit(f"{self.name}: {text}")
        unit = {"us": 0.001, "ms": 1.0, "s": 1000.0}
        percentile = lambda p: (lambda m: float(m[1]) * unit[m[2]])(re.search(rf"\s{p}%\s+([\d.]+)(us|ms|s)\b", text))
        return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), percentile(50), percentile(99)

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


figures = {s[0]: {"cold": [], "idle": [], "peak": [], "bytes": 0, **{c: [] for c in CALLERS}} for s in SERVERS}
for _ in range(ROUNDS):  # outermost, so that drift of the machine hits each alike
    for server in SERVERS:
        mine = figures[server[0]]
        running = Running(server)
        mine["cold"].append(running.cold)
        mine["bytes"] = len(running.once())
        mine["idle"].append(running.memory("VmRSS"))
        for callers in CALLERS:
            mine[callers].append(running.load(callers))
        mine["peak"].append(running.memory("VmHWM"))
        running.stop()

median = statistics.median
print(f"\n{platform.machine()}, {os.cpu_count()} cores, wrk with one thread on the same machine; median of {ROUNDS} rounds of {SECONDS} s\n")
print("| server | callers | calls/s | p50 ms | p99 ms | memory MB (idle, peak) | cold start ms | result bytes |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
for name, mine in figures.items():
    for callers in CALLERS:
        rate, p50, p99 = (median(x[i] for x in mine[callers]) for i in range(3))
        rest = f"{median(mine['idle']):.1f}, {median(mine['peak']):.1f} | {median(mine['cold']):.0f} | {mine['bytes']}" if callers == 1 else " | | "
        print(f"| {name} | {callers} | {rate:,.0f} | {p50:.2f} | {p99:.2f} | {rest} |")
ours, *others = figures.values()
for name, other in list(figures.items())[1:]:
    ratio = median(x[0] for x in ours[64]) / median(x[0] for x in other[64])
    print(f"\nAt 64 callers {ratio:.1f} times the calls of {name}.")
