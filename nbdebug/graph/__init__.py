"""The autograd graph of one forward pass, read like source code: what flows where, through which line of whose code."""

from nbdebug.graph.cuts import Cut as Cut
from nbdebug.graph.node import Node as Node
from nbdebug.graph.pattern import HARMLESS as HARMLESS
from nbdebug.graph.pattern import Pattern as Pattern
from nbdebug.graph.reader import Graph as Graph
from nbdebug.graph.tracing import Trace as Trace
from nbdebug.graph.tracing import tracing as tracing

__all__ = ["HARMLESS", "Cut", "Graph", "Node", "Pattern", "Trace", "tracing"]
