"""Muon for the matrices inside the layers, AdamW for the rest.

Muon: each step is the momentum made orthogonal by a few Newton-Schulz iterations. Matrices of one shape go together.
"""

import torch

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonal(stack):
    """[n, rows, columns] -> about the nearest matrices with singular values of one."""
    x = stack.bfloat16() if stack.is_cuda else stack
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    first, second, third = NEWTON_SCHULZ
    for _ in range(5):
        gram = x @ x.transpose(-1, -2)
        x = first * x + (second * gram + third * gram @ gram) @ x
    return x.transpose(-1, -2) if tall else x


class Muon:
    def __init__(self, parameters, momentum=0.95, decay=0.02):
        self.momentum, self.decay = momentum, decay
        shapes = {}
        for parameter in parameters:
            shapes.setdefault(tuple(parameter.shape), []).append(parameter)
        self.groups = [shapes[shape] for shape in sorted(shapes)]
        self.buffers = [torch.zeros(len(group), *group[0].shape, device=group[0].device) for group in self.groups]

    @torch.no_grad()
    def step(self, rate):
        for group, buffer in zip(self.groups, self.buffers):
            gradient = torch.stack([parameter.grad for parameter in group]).float()
            buffer.lerp_(gradient, 1 - self.momentum)
            update = orthogonal(gradient.lerp(buffer, self.momentum))
            rows, columns = group[0].shape
            scale = max(1.0, rows / columns) ** 0.5
            torch._foreach_mul_(group, 1 - rate * self.decay)
            torch._foreach_add_(group, [part.float() for part in update.unbind()], alpha=-rate * scale)


def split(network):
    """(parameters for Muon, parameters for AdamW)"""
    matrices, others = [], []
    for name, parameter in network.named_parameters():
        inside = name.startswith("layers.") and parameter.ndim == 2
        small = "in_proj_a" in name or "in_proj_b" in name
        (matrices if inside and not small else others).append(parameter)
    return matrices, others
