"""The official Python client against a server of ours; arguments and output as client.mjs has them."""
import asyncio, json, os, sys

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    how, *rest = sys.argv[1:]
    if how == "http":
        url, token, *calls = rest
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=20)
        transport = streamable_http_client(url, http_client=http)
    else:
        end = rest.index("--calls")
        command, *args = rest[:end]
        calls = rest[end + 1 :]
        transport = stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ)), errlog=open(os.devnull, "w"))
    async with Client(transport) as client:
        tools = (await client.list_tools()).tools
        results = []
        for name, arguments in zip(calls[::2], calls[1::2]):
            got = await client.call_tool(name, json.loads(arguments))
            results.append({"isError": bool(got.is_error), "structured": got.structured_content, "text": got.content[0].text if got.content else None})
        listed = [{"name": t.name, "readOnly": t.annotations.read_only_hint if t.annotations else None} for t in tools]
        print(json.dumps({"server": client.server_info.name, "tools": listed, "results": results}))


asyncio.run(main())
