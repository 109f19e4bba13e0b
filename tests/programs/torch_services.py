"""Torch's wrappers of process groups: ``torchrun .. torch_services.py [NAME ..]``.

Each rank prints a digest of the results of each service, over ``sccl`` and over gloo.
"""

from __future__ import annotations

import copy
import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch.distributed import checkpoint
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

WIDTH = 12
Found = Iterator[torch.Tensor]


def net() -> torch.nn.Sequential:
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.ReLU(), torch.nn.Linear(2 * WIDTH, WIDTH)
    )


def data(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * dist.get_rank() + seed)
    return torch.randn(5, WIDTH, generator=generator)


def trained(model: torch.nn.Module, steps: int = 3, optimizer: Any = None) -> Found:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(data(step)).square().mean().backward()
        optimizer.step()
    yield from map(torch.Tensor.detach, model.parameters())


class Branches(torch.nn.Module):
    """The rank and the step choose one of its two branches."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = torch.nn.ModuleList([net(), net()])
        self.calls = 0

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        out: torch.Tensor = self.branches[(self.calls + dist.get_rank()) % 2](given)
        return out


def unused_parameters(group: Any) -> Found:
    model = DistributedDataParallel(Branches(), process_group=group, find_unused_parameters=True)
    yield from trained(model)


def accumulated(group: Any) -> Found:
    model = DistributedDataParallel(net(), process_group=group)
    with model.no_sync():
        model(data(9)).sum().backward()
    model(data(8)).sum().backward()
    yield from (one.grad for one in model.parameters() if one.grad is not None)


def static_graph(group: Any) -> Found:
    yield from trained(DistributedDataParallel(net(), process_group=group, static_graph=True))


def comm_hooks(group: Any) -> Found:
    def own_hook(state: Any, bucket: Any) -> Any:
        work = dist.all_reduce(bucket.buffer(), group=state, async_op=True)
        return work.get_future().then(lambda future: future.value()[0].mul(0.5))

    own_hook.__annotations__ = {}  # torch reads them, and takes no names of types
    hooks: list[tuple[Any, Callable[..., Any]]] = [
        (group, default_hooks.allreduce_hook),
        (group, default_hooks.fp16_compress_hook),
        (group, own_hook),
        (powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook),
    ]
    for state, hook in hooks:
        model = DistributedDataParallel(net(), process_group=group)
        model.register_comm_hook(state, hook)
        yield from trained(model, 4)


def uneven_inputs(group: Any) -> Found:
    model = DistributedDataParallel(net(), process_group=group)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, group, lr=0.1)
    with Join([model, optimizer]):
        yield from trained(model, 2 + dist.get_rank(), optimizer)


def averaged(group: Any) -> Found:
    model = net()
    averager = PeriodicModelAverager(period=2, process_group=group)
    for step in range(4):
        list(trained(model, 1))
        averager.average_parameters(model.parameters())
        assert step >= 0
    yield from map(torch.Tensor.detach, model.parameters())


def zero(group: Any) -> Found:
    model = DistributedDataParallel(net(), process_group=group)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, group)
    yield from trained(model, 3, optimizer)
    optimizer.consolidate_state_dict(to=0)


def sharded(group: Any) -> tuple[torch.nn.Module, Any]:
    mesh, model = DeviceMesh.from_group(group, "cpu"), net()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.Adam(model.parameters())


def fsdp2(group: Any) -> Found:
    model, optimizer = sharded(group)
    for one in trained(model, 3, optimizer):
        yield one.to_local()


def saved(group: Any) -> Found:
    """A checkpoint of sharded parameters, loaded into other ones."""
    model, optimizer = sharded(group)
    list(trained(model, 2, optimizer))
    names: list[Any] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names, 0, group)
    checkpoint.save({"model": model.state_dict()}, checkpoint_id=names[0], process_group=group)
    other, _ = sharded(group)
    state = {"model": other.state_dict()}
    checkpoint.load(state, checkpoint_id=names[0], process_group=group)
    other.load_state_dict(state["model"])
    for one, its in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one.to_local(), its.to_local())
        yield its.to_local().detach()


def distributed_tensors(group: Any) -> Found:
    mesh = DeviceMesh.from_group(group, "cpu")
    torch.manual_seed(3)
    whole = torch.randn(7, 9)
    for first, then in ((Shard(0), Replicate()), (Shard(0), Shard(1)), (Replicate(), Shard(1))):
        own = distribute_tensor(whole.clone(), mesh, [first])
        moved = own.redistribute(mesh, [then])
        assert torch.equal(moved.full_tensor(), whole)
        yield moved.to_local()
    for placement in (Replicate(), Shard(0)):
        part = DTensor.from_local(whole + dist.get_rank(group), mesh, [Partial()])
        yield part.redistribute(mesh, [placement]).to_local()
    turned = distribute_tensor(whole.t().contiguous(), mesh, [Shard(0)])
    yield (distribute_tensor(whole, mesh, [Shard(1)]) @ turned).full_tensor()


def parallel_layers(group: Any) -> Found:
    mesh = DeviceMesh.from_group(group, "cpu")
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(copy.deepcopy(net()), mesh, plan)
    torch.manual_seed(5)
    out = model(torch.randn(4, WIDTH))
    out.square().sum().backward()
    yield out.detach()
    for one in model.parameters():
        grad = one.grad
        yield grad.to_local() if isinstance(grad, DTensor) else grad


def functional_collectives(group: Any) -> Found:
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    own = torch.arange(4.0 * ranks).view(ranks, 4) + rank
    yield functional.all_reduce(own, "sum", group) + 0
    yield functional.all_gather_tensor(own, 0, group) + 0
    yield functional.reduce_scatter_tensor(own, "max", 0, group) + 0
    yield functional.all_to_all_single(own, None, None, group) + 0
    yield functional.broadcast(own, ranks - 1, group) + 0
    yield from (one + 0 for one in functional.all_reduce_coalesced([own, own + 1], "sum", group))
    yield from (one + 0 for one in functional.all_gather_into_tensor_coalesced([own, own], group))
    yield functional.wait_tensor(functional.all_reduce(own, "min", group))


def gradients(group: Any) -> Found:
    own = (torch.ones(3) * (1 + dist.get_rank())).requires_grad_()
    (differentiable.all_reduce(own * own, group=group)).sum().backward()
    assert own.grad is not None
    yield own.grad
    other = own.detach().clone().requires_grad_()
    torch.stack(differentiable.all_gather(other * 2, group)).square().sum().backward()
    assert other.grad is not None
    yield other.grad


def sparse(group: Any) -> Found:
    rank = dist.get_rank()
    where = torch.tensor([[rank, rank + 1], [0, rank]])
    own = torch.sparse_coo_tensor(where, torch.tensor([1.5, 2.5]), (8, 8))
    dist.all_reduce(own, group=group)
    yield own.to_dense()


def objects(group: Any) -> Found:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    every: list[Any] = [None] * ranks
    dist.all_gather_object(every, {"rank": rank, "text": "x" * rank}, group)
    gathered: list[Any] | None = [None] * ranks if rank == 0 else None
    dist.gather_object([rank], gathered, 0, group)
    given: list[Any] = [None]
    dist.scatter_object_list(given, every if rank == 0 else None, 0, group)
    told = [("first", rank)]
    dist.broadcast_object_list(told, ranks - 1, group)
    if rank == 0:
        dist.send_object_list([every], 1, group)
    if rank == 1:
        got: list[Any] = [None]
        dist.recv_object_list(got, 0, group)
        assert got == [every]
    yield torch.frombuffer(
        bytearray(repr((every, gathered, given, told)), "utf-8"), dtype=torch.uint8
    )


def sends(group: Any) -> Found:
    """With tags in another order, from any rank, and in batches."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    to, come = (rank + 1) % ranks, (rank - 1) % ranks
    got = [torch.zeros(3), torch.zeros(500)]
    works = [dist.isend(torch.full((3,), 1.0 + rank), to, group, tag=1)]
    works.append(dist.isend(torch.full((500,), 2.0 + rank), to, group, tag=2))
    works.append(dist.irecv(got[1], come, group, tag=2))
    works.append(dist.irecv(got[0], come, group, tag=1))
    for work in works:
        assert work is not None
        work.wait()
    yield from got
    if rank == 0:
        from_any = torch.zeros(1)
        found = sorted((dist.recv(from_any, group=group, tag=7), float(from_any))
                       for _ in range(ranks - 1))  # fmt: skip
        assert found == [(k, 10.0 + k) for k in range(1, ranks)]
    else:
        dist.send(torch.tensor([10.0 + rank]), 0, group, tag=7)
    batch = torch.zeros(4)
    ops = [dist.P2POp(dist.isend, torch.full((4,), 1.0 * rank), to, group)]
    ops.append(dist.P2POp(dist.irecv, batch, come, group))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    yield batch


def groups(group: Any) -> Found:
    """Groups of one rank, of some, and several that share ranks, made over the same backend."""
    name, rank, ranks = dist.get_backend(group), dist.get_rank(), dist.get_world_size()
    alone = [dist.new_group([k], backend=name) for k in range(ranks)]
    all_but = [dist.new_group([k for k in range(ranks) if k != out], backend=name)
               for out in range(ranks)]  # fmt: skip
    own = torch.tensor([1.0 + rank])
    dist.all_reduce(own, group=alone[rank])
    yield own
    for out, those in enumerate(all_but):
        if out != rank:
            dist.all_reduce(own, group=those)
            yield own.clone()
    dist.barrier(group)
    if name == "sccl":
        group.monitored_barrier(timedelta(seconds=60), wait_all_ranks=True)
    else:
        dist.monitored_barrier(group, timedelta(seconds=60))
    for one in (*alone, *all_but):
        if one is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(one)


def meshes(group: Any) -> Found:
    """A mesh that makes its groups itself: over the job's backend."""
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (1, ranks), mesh_dim_names=("a", "b"))
    assert dist.get_backend(mesh.get_group("b")) == "sccl"
    own = torch.arange(3.0) + dist.get_rank()
    dist.all_reduce(own, group=mesh.get_group("b"))
    beside = torch.arange(3.0) + dist.get_rank()
    dist.all_reduce(beside, group=group)
    assert torch.equal(own, beside)
    yield own


SERVICES = (unused_parameters, accumulated, static_graph, comm_hooks, uneven_inputs, averaged, zero,
            fsdp2, saved, distributed_tensors, parallel_layers, functional_collectives, gradients,
            sparse, objects, sends, groups, meshes)  # fmt: skip


def digest(service: Callable[[Any], Found], group: Any) -> str:
    found = hashlib.sha256()
    for one in service(group):
        found.update(one.detach().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    dist.init_process_group("sccl")
    beside = dist.new_group(backend="gloo")
    for service in SERVICES:
        if sys.argv[1:] and service.__name__ not in sys.argv[1:]:
            continue
        ours, theirs = digest(service, dist.group.WORLD), digest(service, beside)
        sys.stdout.write(f"{dist.get_rank()} {service.__name__} {ours} {theirs}\n")  # at once
        sys.stdout.flush()
    dist.barrier()  # gloo's groups don't wait for the others to have read all
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
