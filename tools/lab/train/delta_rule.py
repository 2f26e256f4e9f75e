"""The gated delta rule over whole sequences, in chunks, as matrix products alone.

    S_t = exp(g_t) S_{t-1};  S_t += k_t (beta_t (v_t - k_t^T S_t));  o_t = q_t^T S_t

Inside a chunk the rule is a triangular system; from chunk to chunk the state obeys S' = M S + N, and a scan over
the pairs (M, N) gives the state before every chunk without a loop over time.
"""

import torch

CHUNK = 64
BLOCK = 16


def inverse_of_unit_lower(a):
    """(I + a)^-1 for strictly lower triangular a [..., CHUNK, CHUNK].

    Blocks of BLOCK by the product (I - a)(I + a^2)(I + a^4)(I + a^8), exact since a^16 = 0; then pairs of blocks
    are joined. The product over the whole chunk would cancel badly where keys repeat.
    """
    lead = a.shape[:-2]
    count = CHUNK // BLOCK
    eye = torch.eye(BLOCK, device=a.device, dtype=a.dtype)
    blocks = a.reshape(*lead, count, BLOCK, count, BLOCK).diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
    blocks = blocks.reshape(-1, BLOCK, BLOCK)
    inverse, power = eye - blocks, blocks
    for _ in range(3):
        power = torch.bmm(power, power)
        inverse = inverse + torch.bmm(inverse, power)
    size = BLOCK
    inverse = inverse.reshape(-1, count, size, size)
    whole = a.reshape(-1, CHUNK, CHUNK)
    while size < CHUNK:
        first, second = inverse[:, 0::2], inverse[:, 1::2]
        pairs = CHUNK // (2 * size)
        grid = whole.reshape(-1, pairs, 2, size, pairs, 2, size)
        below = torch.stack([grid[:, i, 1, :, i, 0, :] for i in range(pairs)], dim=1)
        corner = -(second @ below @ first)
        top = torch.cat([first, torch.zeros_like(first)], dim=-1)
        inverse = torch.cat([top, torch.cat([corner, second], dim=-1)], dim=-2)
        size *= 2
    return inverse.reshape(a.shape)


def chunked_delta_rule(q, k, v, g, beta):
    """q, k [B, T, H, K] (normalised, q scaled), v [B, T, H, V], g, beta [B, T, H], all float32 -> [B, T, H, V].

    T must be a multiple of CHUNK.
    """
    batch, length, heads, key_dim = q.shape
    value_dim = v.shape[-1]
    chunks = length // CHUNK

    def cut(x):  # [B, T, H, D] -> [B, H, chunks, CHUNK, D]
        return x.reshape(batch, chunks, CHUNK, heads, -1).permute(0, 3, 1, 2, 4)

    q, k, v = cut(q), cut(k), cut(v)
    beta = cut(beta[..., None])
    decay = cut(g[..., None])[..., 0].cumsum(-1)  # [B, H, chunks, CHUNK]
    difference = decay[..., :, None] - decay[..., None, :]
    lower = torch.ones(CHUNK, CHUNK, device=q.device, dtype=torch.bool).tril()
    between = torch.exp(difference.masked_fill(~lower, float("-inf")))  # from a token to a later one, itself included
    k_beta = k * beta
    inner = (k_beta @ k.transpose(-1, -2)) * between
    inner = inner.masked_fill(~lower.tril(-1), 0.0)
    solve = inverse_of_unit_lower(inner)
    u = solve @ (v * beta)
    w = solve @ (k_beta * torch.exp(decay)[..., None])
    last = decay[..., -1:]
    k_end = (k * torch.exp(last - decay)[..., None]).transpose(-1, -2)  # [.., K, CHUNK]
    eye = torch.eye(key_dim, device=q.device, dtype=q.dtype)
    step = eye * torch.exp(last)[..., None] - k_end @ w  # M [.., K, K]
    add = k_end @ u                                      # N [.., K, V]

    distance = 1
    while distance < chunks:
        late = step[:, :, distance:]
        add = torch.cat([add[:, :, :distance], late @ add[:, :, :-distance] + add[:, :, distance:]], dim=2)
        step = torch.cat([step[:, :, :distance], late @ step[:, :, :-distance]], dim=2)
        distance *= 2
    before = torch.cat([torch.zeros_like(add[:, :, :1]), add[:, :, :-1]], dim=2)

    change = u - w @ before
    out = (q * torch.exp(decay)[..., None]) @ before + ((q @ k.transpose(-1, -2)) * between) @ change
    return out.permute(0, 2, 3, 1, 4).reshape(batch, length, heads, value_dim)
