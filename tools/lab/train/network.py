"""Qwen3.5's text model for training: the same parameters under the same names as transformers has, but over rows
of packed documents. `place` [B, T] is the place of each token in its document; nothing crosses from one document
into the next.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from delta_rule import chunked_delta_rule

FORGET = -80.0  # exp of it wipes the state


class Linear(nn.Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)

    def reset_parameters(self):
        nn.init.normal_(self.weight, std=0.5 / math.sqrt(self.in_features))


class Norm(nn.Module):
    """Zero-centred: the weight is what is added to one."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1.0 + self.weight.float())).to(x.dtype)


class GatedNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x, gate):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()
        return (y * F.silu(gate.float())).to(gate.dtype)


class Conv(nn.Module):
    """Depthwise and causal; taps that would reach into the document before see zeros."""

    def __init__(self, channels, taps):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, taps).uniform_(-0.5, 0.5))
        self.taps = taps

    def forward(self, x, place):
        weight = self.weight[:, 0].to(x.dtype)
        y = x * weight[:, -1]
        for back in range(1, self.taps):
            shifted = F.pad(x, (0, 0, back, 0))[:, : x.shape[1]]
            y = y + shifted * (place >= back)[..., None].to(x.dtype) * weight[:, -1 - back]
        return F.silu(y)


def unit_length(x):
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)


class GatedDeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.key_heads, self.value_heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
        self.key_dim, self.value_dim = c["linear_key_head_dim"], c["linear_value_head_dim"]
        keys, values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        hidden = c["hidden_size"]
        self.in_proj_qkv = Linear(hidden, 2 * keys + values)
        self.in_proj_z = Linear(hidden, values)
        self.in_proj_b = Linear(hidden, self.value_heads)
        self.in_proj_a = Linear(hidden, self.value_heads)
        self.out_proj = Linear(values, hidden)
        self.conv1d = Conv(2 * keys + values, c["linear_conv_kernel_dim"])
        self.A_log = nn.Parameter(torch.log(torch.empty(self.value_heads).uniform_(0.5, 8.0)))
        # softplus(dt_bias) lies between 0.001 and 0.1: memories of ten to a thousand tokens to begin with
        dt = torch.exp(torch.empty(self.value_heads).uniform_(math.log(0.001), math.log(0.1)))
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.norm = GatedNorm(self.value_dim, c["rms_norm_eps"])

    def forward(self, x, place):
        batch, length, _ = x.shape
        keys = self.key_heads * self.key_dim
        mixed = self.conv1d(self.in_proj_qkv(x), place)
        q, k, v = mixed.split([keys, keys, self.value_heads * self.value_dim], dim=-1)
        q = unit_length(q.reshape(batch, length, self.key_heads, self.key_dim).float()) / math.sqrt(self.key_dim)
        k = unit_length(k.reshape(batch, length, self.key_heads, self.key_dim).float())
        v = v.reshape(batch, length, self.value_heads, self.value_dim).float()
        group = self.value_heads // self.key_heads
        if group > 1:
            q, k = q.repeat_interleave(group, dim=2), k.repeat_interleave(group, dim=2)
        beta = self.in_proj_b(x).float().sigmoid()
        g = -self.A_log.float().exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias.float())
        g = torch.where((place == 0)[..., None], torch.full_like(g, FORGET), g)
        with torch.autocast(x.device.type, enabled=False):
            out = chunked_delta_rule(q, k, v, g, beta)
        z = self.in_proj_z(x).reshape(batch, length, self.value_heads, self.value_dim)
        return self.out_proj(self.norm(out, z).reshape(batch, length, -1))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.size = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        hidden = c["hidden_size"]
        self.q_proj = Linear(hidden, 2 * self.heads * self.size)
        self.k_proj = Linear(hidden, self.kv_heads * self.size)
        self.v_proj = Linear(hidden, self.kv_heads * self.size)
        self.o_proj = Linear(self.heads * self.size, hidden)
        self.q_norm = Norm(self.size, c["rms_norm_eps"])
        self.k_norm = Norm(self.size, c["rms_norm_eps"])

    def rotate(self, x, cos, sin):
        turned, rest = x[..., : 2 * cos.shape[-1]], x[..., 2 * cos.shape[-1] :]
        first, second = turned.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)

    def forward(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        q, gate = self.q_proj(x).reshape(batch, length, self.heads, 2 * self.size).chunk(2, dim=-1)
        k = self.k_proj(x).reshape(batch, length, self.kv_heads, self.size)
        v = self.v_proj(x).reshape(batch, length, self.kv_heads, self.size).transpose(1, 2)
        q = self.rotate(self.q_norm(q).transpose(1, 2), cos, sin).to(v.dtype)
        k = self.rotate(self.k_norm(k).transpose(1, 2), cos, sin).to(v.dtype)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out = out.transpose(1, 2) * gate.sigmoid()
        return self.o_proj(out.reshape(batch, length, -1))


class SwiGlu(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = Linear(c["hidden_size"], c["intermediate_size"])
        self.up_proj = Linear(c["hidden_size"], c["intermediate_size"])
        self.down_proj = Linear(c["intermediate_size"], c["hidden_size"])

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LinearLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.linear_attn = GatedDeltaNet(c)
        self.post_attention_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = SwiGlu(c)

    def forward(self, x, place):
        x = x + self.linear_attn(self.input_layernorm(x), place)
        return x + self.mlp(self.post_attention_layernorm(x))


class AttentionLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = SwiGlu(c)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Network(nn.Module):
    """Parameters are named as in transformers' Qwen3_5ForCausalLM, less the leading "model."; tied embeddings."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        kinds = {"linear_attention": LinearLayer, "full_attention": AttentionLayer}
        self.layers = nn.ModuleList(kinds[kind](c) for kind in c["layer_types"])
        for layer in self.layers:  # each layer begins as the identity
            mixer = layer.linear_attn.out_proj if isinstance(layer, LinearLayer) else layer.self_attn.o_proj
            nn.init.zeros_(mixer.weight)
            nn.init.zeros_(layer.mlp.down_proj.weight)
        self.norm = Norm(c["hidden_size"], c["rms_norm_eps"])
        rope = c["rope_parameters"]
        pairs = int(c["head_dim"] * rope["partial_rotary_factor"]) // 2
        self.frequencies = [rope["rope_theta"] ** (-i / pairs) for i in range(pairs)]

    def forward(self, tokens, place):
        """tokens, place [B, T] -> what the head sees [B, T, hidden]. T must be a multiple of 64."""
        device = tokens.device
        length = tokens.shape[1]
        angles = torch.arange(length, device=device).float()[:, None] * torch.tensor(self.frequencies, device=device)
        cos, sin = angles.cos(), angles.sin()  # differences count, so places in the row serve every document
        document = (place == 0).cumsum(1)
        causal = torch.ones(length, length, dtype=torch.bool, device=device).tril()
        mask = (document[:, :, None] == document[:, None, :])[:, None] & causal
        x = self.embed_tokens(tokens)
        if torch.is_autocast_enabled():
            x = x.to(torch.bfloat16)
        for layer in self.layers:
            x = layer(x, place) if isinstance(layer, LinearLayer) else layer(x, cos, sin, mask)
        return self.norm(x)

    def logits(self, tokens, place):
        return F.linear(self.forward(tokens, place), self.embed_tokens.weight)
