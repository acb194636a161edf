# SPDX-License-Identifier: Apache-2.0
"""Anthropic's and OpenAI's APIs on the loopback interface, for agents that call several tools in a turn.

Their models follow a script. What makes them worth having is what they refuse: a conversation that breaks
the real APIs' rules about tool calls gets the status 400 and, where they are public, the real APIs' words.
"""

from providers.anthropic import AnthropicApi
from providers.openai import OpenAIApi
from providers.server import Refused, serve

__all__ = ["AnthropicApi", "OpenAIApi", "Refused", "serve"]
