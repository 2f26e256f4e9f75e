#include "models/cpu/attention.h"

#include <cmath>
#include <cstring>

#include "models/checkpoint.h"
#include "models/files/load_error.h"

namespace reprise::models {

Attention::Attention(const AttentionSpec& spec, const Checkpoint& checkpoint, const ComputeOptions& options,
                     StateLayout& state, RopeTables& ropes)
    : spec_(spec),
      rope_(spec.rope ? ropes.add(spec.rope) : 0),
      kv_(options.kv),
      q_(checkpoint, spec.name + ".q_proj"),
      k_(checkpoint, spec.name + ".k_proj"),
      v_(checkpoint, spec.name + ".v_proj"),
      o_(checkpoint, spec.name + ".o_proj"),
      places_(declare_state(spec, options.kv, state)) {
  if (spec.head_dim > gpu::kLargestAttentionHead) {
    throw LoadError(checkpoint.path(), "head_dim",
                    "must be at most " + std::to_string(gpu::kLargestAttentionHead));
  }
  if (!spec.head_norm) return;
  q_norm_.emplace(checkpoint, NormSpec{spec.name + ".q_norm", spec.head_dim, *spec.head_norm});
  k_norm_.emplace(checkpoint, NormSpec{spec.name + ".k_norm", spec.head_dim, *spec.head_norm});
}

/// projected [rows, heads, 2, head_dim] -> q, gate [rows, heads, head_dim]
void Attention::split_gate(Step& step, const float* projected, float* q, float* gate) const {
  const std::size_t size = spec_.head_dim;
  for (std::size_t head = 0; head < step.rows * spec_.heads; ++head) {
    std::memcpy(q + head * size, projected + 2 * head * size, size * sizeof(float));
    std::memcpy(gate + head * size, projected + (2 * head + 1) * size, size * sizeof(float));
  }
}

/// heads [rows, per_row, head_dim]
void Attention::norm_and_rotate(Step& step, const std::optional<RmsNorm>& norm, float* heads,
                                std::size_t per_row) const {
  const std::size_t size = spec_.head_dim;
  const std::size_t pairs = spec_.rope_pairs();
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* first = heads + row * per_row * size;
      if (norm) norm->apply_here(step.kernels, first, per_row, first);
      if (!spec_.rope) continue;
      const RopeTable& rope = step.ropes[rope_];
      for (std::size_t head = 0; head < per_row; ++head) {
        step.kernels.rope(first + head * size, rope.cosine + row * pairs, rope.sine + row * pairs, pairs);
      }
    }
  });
}

/// values [rows, kv_heads, head_dim] -> their places in the pages
void Attention::store(Step& step, const float* values, std::size_t offset) const {
  const std::size_t size = spec_.head_dim;
  for (const StepSlice& slice : step.slices) {
    for (std::size_t i = 0; i < slice.rows; ++i) {
      const std::size_t position = slice.stored + i;
      std::byte* page = slice.sequence->page_data(position / gpu::kPageTokens) + offset;
      for (std::size_t head = 0; head < spec_.kv_heads; ++head) {
        const float* from = values + ((slice.first_row + i) * spec_.kv_heads + head) * size;
        const std::size_t place = (head * gpu::kPageTokens + position % gpu::kPageTokens) * size;
        if (kv_ == gpu::KvType::kF32) {
          std::memcpy(reinterpret_cast<float*>(page) + place, from, size * sizeof(float));
        } else {
          step.kernels.to_bf16(from, reinterpret_cast<std::uint16_t*>(page) + place, size);
        }
      }
    }
  }
}

void Attention::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t rows = step.rows;
  const std::size_t size = spec_.head_dim;
  float* projected = step.scratch.floats(rows * spec_.q_proj_rows());
  float* q = projected;   // [rows, heads, head_dim]
  float* gate = nullptr;  // [rows, heads, head_dim]
  float* k = step.scratch.floats(rows * spec_.kv_size());
  float* v = step.scratch.floats(rows * spec_.kv_size());
  float* mixed = step.scratch.floats(rows * spec_.q_size());
  LinearInput input(x, rows);
  q_.apply(step, input, projected);
  k_.apply(step, input, k);
  v_.apply(step, input, v);
  if (spec_.output_gate) {
    q = step.scratch.floats(rows * spec_.q_size());
    gate = step.scratch.floats(rows * spec_.q_size());
    split_gate(step, projected, q, gate);
  }
  norm_and_rotate(step, q_norm_, q, spec_.heads);
  norm_and_rotate(step, k_norm_, k, spec_.kv_heads);
  store(step, k, places_.k);
  store(step, v, places_.v);

  const std::size_t head_bytes = gpu::kPageTokens * size * size_of(kv_);
  const float scale = spec_.score_multiplier / std::sqrt(static_cast<float>(size));
  for (const StepSlice& slice : step.slices) {
    step.threads.for_parts(slice.rows * spec_.kv_heads, [&](std::size_t part) {
      const std::size_t i = part / spec_.kv_heads;
      const std::size_t head = part % spec_.kv_heads;
      const std::size_t first = (slice.first_row + i) * spec_.q_size() + head * spec_.group() * size;
      step.kernels.attention({.q = q + first,
                              .out = mixed + first,
                              .group = spec_.group(),
                              .head_dim = size,
                              .length = slice.stored + i + 1,
                              .scale = scale,
                              .pages = slice.pages.data(),
                              .k_offset = places_.k + head * head_bytes,
                              .v_offset = places_.v + head * head_bytes,
                              .kv = kv_});
    });
  }
  if (gate != nullptr) step.kernels.gate_sigmoid(gate, mixed, rows * spec_.q_size());
  o_.apply(step, mixed, rows, y);
  step.scratch.reset(mark);
}

}  // namespace reprise::models
