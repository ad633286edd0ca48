"""The finding of a policy gradient with the wrong sign."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit, Finding
from nbdebug.measurements.policy_gradient import PolicyGradient
from nbdebug.rule_engine.expression_edits import expressions_at
from nbdebug.rules.reversed_pairs import CONSEQUENCES
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine, get_location


def policy_finding(policy: PolicyGradient) -> Finding:
    """Report a policy gradient that makes the actions with the largest weights the least likely."""
    return Finding(
        where=get_location(policy.line),
        message=f"The loss makes actions with larger weights less likely: for all {policy.actions} drawn "
        "actions, a step against the gradient lowers the log-probability if the weight is positive, and raises it if "
        "the weight is negative.",
        cause="The optimizer minimizes the product of log-probability and weight. If the weights are rewards, returns "
        "or advantages, the minus sign is missing.",
        fix="loss = -(log_prob * advantage).mean()",
        evidence={"actions": policy.actions, "followed": policy.followed},
        explains=(*CONSEQUENCES, "T606", "T607", "L208"),
        severity="warning",
        edits=_negate_product(policy.line),
    )


def _negate_product(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only product of two variables or calls on a line to its negative."""
    products = [
        node
        for node in expressions_at(line)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and not isinstance(node.left, ast.Constant)
        and not isinstance(node.right, ast.Constant)
    ]
    if line is None or len(products) != 1:
        return ()
    return (replace_node(line.file, products[0], f"-({node_text(line.file, products[0])})"),)
