// The official TypeScript client against a server of ours.
//   client.mjs http URL TOKEN        TOOL ARGUMENTS [TOOL ARGUMENTS…]
//   client.mjs stdio COMMAND ARGS… --calls TOOL ARGUMENTS [TOOL ARGUMENTS…]
// Prints one JSON object: the server's name, the tools, and what each call gave.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [how, ...rest] = process.argv.slice(2);
let transport, calls;
if (how === "http") {
  const [url, token] = rest;
  calls = rest.slice(2);
  transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
} else {
  const end = rest.indexOf("--calls");
  const [command, ...args] = rest.slice(0, end);
  calls = rest.slice(end + 1);
  transport = new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" });
}
const client = new Client({ name: "interop", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const results = [];
for (let at = 0; at < calls.length; at += 2) {
  const got = await client.callTool({ name: calls[at], arguments: JSON.parse(calls[at + 1]) });
  results.push({ isError: got.isError ?? false, structured: got.structuredContent, text: got.content[0]?.text });
}
console.log(JSON.stringify({ server: client.getServerVersion()?.name, tools: tools.map((t) => ({ name: t.name, readOnly: t.annotations?.readOnlyHint ?? null })), results }));
await client.close();
