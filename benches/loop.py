"""See loop.sh: loop.py LOOP [BASELINE]. Prints, for each case and agent, minimum and median over the rounds."""
import atexit, json, os, platform, statistics, subprocess, sys, time

loop, baseline = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] else None
ROUNDS = int(os.environ.get("ROUNDS", 3))
DSN = "postgresql://postgres@127.0.0.1:18432/bench"
started = []
atexit.register(lambda: [p.terminate() for p in started])


def serve(*command: str) -> None:
    started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


if baseline:
    at_once, slow = ["--llm-url", "http://127.0.0.1:18080/v1"], ["--llm-url", "http://127.0.0.1:18084/v1"]
    serve(f"{baseline}/bin/mock_openai", "--addr", "127.0.0.1:18080", "--latency-ms", "0", "--steps", "8")
    serve(f"{baseline}/bin/mock_openai", "--addr", "127.0.0.1:18084", "--latency-ms", "1000", "--steps", "8")
    serve(f"{baseline}/bin/mock_mcp", "--addr", "127.0.0.1:18082", "--token", "secret")
    subprocess.run([f"{baseline}/pg.sh", "start"], check=True, cwd=baseline)
    atexit.register(lambda: subprocess.run([f"{baseline}/pg.sh", "stop"], cwd=baseline))
    tools = ["--mcp-url", "http://127.0.0.1:18082/mcp", "--token", "secret", "--pg-dsn", DSN]
    python = [f"{baseline}/venv/bin/python", f"{baseline}/agent_langgraph.py"]
    agents = {"inquest": [loop], "LangGraph, tuned": [*python, "--profile", "tuned"], "LangGraph, as documented": [*python, "--profile", "default"]}
    stores = ["memory", "postgres"]
else:
    at_once, slow = ["--llm-url", "http://127.0.0.1:18101/v1"], ["--llm-url", "http://127.0.0.1:18102/v1"]
    serve(loop, "--mock", "18101")
    serve(loop, "--mock", "18102", "--latency-ms", "1000")
    tools, agents, stores = [], {"inquest": [loop]}, ["memory"]
time.sleep(1)

# Name, model, concurrency, investigations by agent: about four seconds of each one's work.
CASES = [
    ("one after the other", at_once, 1, {"inquest": 400, "LangGraph, tuned": 60, "LangGraph, as documented": 20}),
    ("50 at once", at_once, 50, {"inquest": 2000, "LangGraph, tuned": 100, "LangGraph, as documented": 50}),
    ("500 at once, the model takes 1 s", slow, 500, {"inquest": 500, "LangGraph, tuned": 500}),
]
print(f"{platform.machine()}, {os.cpu_count()} cores, {ROUNDS} rounds; a step is one tool call of eight; min / median")
for case, model, concurrency, counts in CASES:
    for store in stores:
        print(f"\n{case}, journal in {store}")
        print(f"{'':26} {'CPU ms/step':>16} {'runs/s':>16} {'peak MB':>16} {'idle MB':>8}")
        results: dict[str, list] = {name: [] for name in counts if name in agents}
        for _ in range(ROUNDS):
            # Rounds outermost: what drifts hits all alike.
            for name in results:
                if baseline:
                    subprocess.run([f"{baseline}/pg.sh", "reset"], cwd=baseline, stdout=subprocess.DEVNULL)
                command = [*agents[name], "--n", str(counts[name]), "--concurrency", str(concurrency), "--checkpoint", store, *model, *tools]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300)
                if done.returncode:
                    sys.exit(f"{name}: {done.stderr[-2000:]}")
                m = json.loads(done.stdout.strip().splitlines()[-1])
                if m.get("errors") or m["steps"] != counts[name] * 8:
                    sys.exit(f"{name}: it did less work: {m}")
                results[name].append(m)
        for name, ms in results.items():
            both = lambda f, best=min: f"{best(map(f, ms)):.2f} / {statistics.median(map(f, ms)):.2f}"  # noqa: E731
            idle = statistics.median(m["rss_idle_mb"] for m in ms)
            print(f"{name:26} {both(lambda m: 1e3 * m['cpu_s'] / m['steps']):>16} {both(lambda m: m['investigations'] / m['wall_s'], max):>16} {both(lambda m: m['rss_peak_mb']):>16} {idle:8.0f}")
if baseline:
    size = subprocess.run(["psql", "-h", "127.0.0.1", "-p", "18432", "-U", "postgres", "-d", "bench", "-tAc",
        "select round(count(*)::numeric / count(distinct uid), 1) || ' rows, ' || sum(length(record)) / count(distinct uid) || ' bytes' from inquest.journal"], capture_output=True, text=True)
    print(f"\na run of inquest in PostgreSQL: {size.stdout.strip()}")
