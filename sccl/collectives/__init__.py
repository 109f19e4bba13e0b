"""Collectives by name, custom ones from files, their chunk counts and duals."""

from sccl.collectives.duality import Dual, dual
from sccl.collectives.spec import Spec, custom, named, names, resolve

__all__ = ["Dual", "Spec", "custom", "dual", "named", "names", "resolve"]
