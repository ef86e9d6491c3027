"""A server that nobody of ours wrote: FastMCP. server.py PORT [stateless]; without it with its defaults."""
import sys

from fastmcp import FastMCP
from mcp_types import ToolAnnotations

app = FastMCP("weather")


@app.tool(annotations=ToolAnnotations(readOnlyHint=True))
def forecast(city: str, days: int = 1) -> dict:
    """What the weather will be."""
    return {"city": city, "days": [{"day": n, "sky": "clear"} for n in range(days)]}


@app.tool(annotations=ToolAnnotations(readOnlyHint=True))
def broken() -> str:
    """It fails."""
    raise ValueError("the barometer fell; password=hunter22")


@app.tool
def seed_clouds(city: str) -> str:
    """It changes something, and says nothing about that."""
    return "rain over " + city


stateless = {"stateless_http": True, "json_response": True} if sys.argv[2:] == ["stateless"] else {}
app.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="error", **stateless)
