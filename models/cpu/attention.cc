#include "models/cpu/attention.h"

#include <cmath>
#include <cstring>

#include "models/checkpoint.h"
#include "models/files/load_error.h"

namespace reprise::models {

Attention::Attention(const Checkpoint& checkpoint, const std::string& prefix, const ComputeOptions& options,
                     StateLayout& state)
    : config_(checkpoint.config().attention),
      rope_pairs_(checkpoint.config().rope.dimension / 2),
      kv_(options.kv),
      q_(checkpoint, prefix + ".q_proj"),
      k_(checkpoint, prefix + ".k_proj"),
      v_(checkpoint, prefix + ".v_proj"),
      o_(checkpoint, prefix + ".o_proj"),
      places_(declare_attention(state, prefix, config_, options.kv)) {
  if (config_.head_dim > gpu::kLargestAttentionHead) {
    throw LoadError(checkpoint.path(), "head_dim",
                    "must be at most " + std::to_string(gpu::kLargestAttentionHead));
  }
  if (!config_.qk_norm) return;
  const ModelConfig& model = checkpoint.config();
  q_norm_ = {load_vector(checkpoint, prefix + ".q_norm.weight"), model.norm_offset, model.rms_eps};
  k_norm_ = {load_vector(checkpoint, prefix + ".k_norm.weight"), model.norm_offset, model.rms_eps};
}

/// projected [rows, heads, 2, head_dim] -> q, gate [rows, heads, head_dim]
void Attention::split_gate(Step& step, const float* projected, float* q, float* gate) const {
  const std::size_t size = config_.head_dim;
  for (std::size_t head = 0; head < step.rows * config_.heads; ++head) {
    std::memcpy(q + head * size, projected + 2 * head * size, size * sizeof(float));
    std::memcpy(gate + head * size, projected + (2 * head + 1) * size, size * sizeof(float));
  }
}

/// heads [rows, per_row, head_dim]
void Attention::norm_and_rotate(Step& step, const RmsNorm& norm, float* heads, std::size_t per_row) const {
  const std::size_t size = config_.head_dim;
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* first = heads + row * per_row * size;
      if (config_.qk_norm) {
        step.kernels.rms_norm(first, norm.weight.data(), norm.offset, norm.eps, first, per_row, size, size);
      }
      for (std::size_t head = 0; head < per_row; ++head) {
        step.kernels.rope(first + head * size, step.rope_cos + row * rope_pairs_,
                          step.rope_sin + row * rope_pairs_, rope_pairs_);
      }
    }
  });
}

/// values [rows, kv_heads, head_dim] -> their places in the pages
void Attention::store(Step& step, const float* values, std::size_t offset) const {
  const std::size_t size = config_.head_dim;
  for (const StepSlice& slice : step.slices) {
    for (std::size_t i = 0; i < slice.rows; ++i) {
      const std::size_t position = slice.stored + i;
      std::byte* page = slice.sequence->page_data(position / gpu::kPageTokens) + offset;
      for (std::size_t head = 0; head < config_.kv_heads; ++head) {
        const float* from = values + ((slice.first_row + i) * config_.kv_heads + head) * size;
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
  const std::size_t size = config_.head_dim;
  float* projected = step.scratch.floats(rows * config_.q_proj_rows);
  float* q = projected;   // [rows, heads, head_dim]
  float* gate = nullptr;  // [rows, heads, head_dim]
  float* k = step.scratch.floats(rows * config_.kv_size);
  float* v = step.scratch.floats(rows * config_.kv_size);
  float* mixed = step.scratch.floats(rows * config_.q_size);
  q_.apply(step, x, rows, projected);
  k_.apply(step, x, rows, k);
  v_.apply(step, x, rows, v);
  if (config_.output_gate) {
    q = step.scratch.floats(rows * config_.q_size);
    gate = step.scratch.floats(rows * config_.q_size);
    split_gate(step, projected, q, gate);
  }
  norm_and_rotate(step, q_norm_, q, config_.heads);
  norm_and_rotate(step, k_norm_, k, config_.kv_heads);
  store(step, k, places_.k);
  store(step, v, places_.v);

  const std::size_t head_bytes = gpu::kPageTokens * size * size_of(kv_);
  const float scale = 1.0F / std::sqrt(static_cast<float>(size));
  for (const StepSlice& slice : step.slices) {
    step.threads.for_parts(slice.rows * config_.kv_heads, [&](std::size_t part) {
      const std::size_t i = part / config_.kv_heads;
      const std::size_t head = part % config_.kv_heads;
      const std::size_t first = (slice.first_row + i) * config_.q_size + head * config_.group * size;
      step.kernels.attention({.q = q + first,
                              .out = mixed + first,
                              .group = config_.group,
                              .head_dim = size,
                              .length = slice.stored + i + 1,
                              .scale = scale,
                              .pages = slice.pages.data(),
                              .k_offset = places_.k + head * head_bytes,
                              .v_offset = places_.v + head * head_bytes,
                              .kv = kv_});
    });
  }
  if (gate != nullptr) step.kernels.gate_sigmoid(gate, mixed, rows * config_.q_size);
  o_.apply(step, mixed, rows, y);
  step.scratch.reset(mark);
}

}  // namespace reprise::models
