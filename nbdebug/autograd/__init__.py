"""The autograd graph of a forward pass, with the module and the user's line of every operation."""

from __future__ import annotations

from nbdebug.autograd.graph import Graph as Graph
from nbdebug.autograd.graph import Node as Node
from nbdebug.autograd.patterns import VALUE_PRESERVING_NODES as VALUE_PRESERVING_NODES
from nbdebug.autograd.patterns import Pattern as Pattern
from nbdebug.autograd.tracing import DetachPoint as DetachPoint
from nbdebug.autograd.tracing import ForwardTrace as ForwardTrace
from nbdebug.autograd.tracing import trace_forward as trace_forward

__all__ = ["VALUE_PRESERVING_NODES", "DetachPoint", "ForwardTrace", "Graph", "Node", "Pattern", "trace_forward"]
