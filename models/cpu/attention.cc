// Grouped-query attention on the CPU (models/parts/attention.h), with K and V in pages or, with a window, in
// a ring of pages in the slot.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "models/cpu/kv_compaction.h"
#include "models/cpu/linear.h"
#include "models/cpu/part.h"
#include "models/cpu/slot_exports.h"
#include "models/files/load_error.h"
#include "models/model_files.h"
#include "models/parts/attention.h"

namespace reprise::models::cpu {
namespace {

class Attention : public Part {
 public:
  Attention(const AttentionSpec& spec, const ModelFiles& files, const ComputeOptions& options,
            StateLayout& state, RopeTables& ropes);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&q_, &k_, &v_, &o_}) linear->prepare(how);
  }
  void compact(const CompactionStep& step) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"attention"};
    return kSite;
  }

 private:
  void split_gate(Step& step, const float* projected, float* q, float* gate) const;
  void norm_and_rotate(Step& step, const std::optional<RmsNorm>& norm, float* heads,
                       std::size_t per_row) const;
  void store(Step& step, const float* values, std::size_t rows, std::size_t position, std::byte* page) const;
  void remember_queries(Step& step, const float* q) const;
  void attend_pages(Step& step, const float* q, const float* k, const float* v, float* mixed) const;
  void attend_ring(Step& step, const float* q, const float* k, const float* v, float* mixed) const;

  const AttentionSpec spec_;
  const std::size_t rope_;  // index of its table; unused if the spec has no RoPE
  const gpu::KvType kv_;
  const float scale_;
  Linear q_;
  Linear k_;
  Linear v_;
  Linear o_;
  std::optional<RmsNorm> q_norm_;
  std::optional<RmsNorm> k_norm_;
  AttentionOffsets offsets_;
};

Attention::Attention(const AttentionSpec& spec, const ModelFiles& files, const ComputeOptions& options,
                     StateLayout& state, RopeTables& ropes)
    : spec_(spec),
      rope_(spec.rope ? ropes.add(spec.rope) : 0),
      kv_(kv_of(spec, options.kv)),
      scale_(spec.score_multiplier / std::sqrt(static_cast<float>(spec.head_dim))),
      q_(files, spec.name + ".q_proj"),
      k_(files, spec.name + ".k_proj"),
      v_(files, spec.name + ".v_proj"),
      o_(files, spec.name + ".o_proj"),
      offsets_(declare_state(spec, options.kv, state)) {
  if (spec.head_dim > gpu::kMaxAttentionHead) {
    throw LoadError(files.path(), "head_dim", "must be at most " + std::to_string(gpu::kMaxAttentionHead));
  }
  if (!spec.head_norm) return;
  q_norm_.emplace(files, NormSpec{spec.name + ".q_norm", spec.head_dim, *spec.head_norm});
  k_norm_.emplace(files, NormSpec{spec.name + ".k_norm", spec.head_dim, *spec.head_norm});
}

/// projected [rows, heads, 2, head_dim] -> q, gate [rows, heads, head_dim]
void Attention::split_gate(Step& step, const float* projected, float* q, float* gate) const {
  const std::size_t size = spec_.head_dim;
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t head = begin * spec_.heads; head < end * spec_.heads; ++head) {
      std::memcpy(q + head * size, projected + 2 * head * size, size * sizeof(float));
      std::memcpy(gate + head * size, projected + (2 * head + 1) * size, size * sizeof(float));
    }
  });
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

/// Stores values [rows, kv_heads, head_dim] in a page, from `position` on. `page`: K, or V, of all heads.
void Attention::store(Step& step, const float* values, std::size_t rows, std::size_t position,
                      std::byte* page) const {
  const std::size_t size = spec_.head_dim;
  const std::size_t row_bytes = gpu::kv_row_bytes(kv_, size);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t head = 0; head < spec_.kv_heads; ++head) {
      const float* from = values + (i * spec_.kv_heads + head) * size;
      std::byte* to = page + (head * gpu::kPageTokens + (position + i) % gpu::kPageTokens) * row_bytes;
      if (kv_ == gpu::KvType::kF32) {
        std::memcpy(to, from, row_bytes);
      } else if (kv_ == gpu::KvType::kBF16) {
        step.kernels.to_bf16(from, reinterpret_cast<std::uint16_t*>(to), size);
      } else {
        gpu::store_quantized_row(kv_, from, size, to);
      }
    }
  }
}

/// Copies q [rows, heads, head_dim] of the last tokens of each slice to the prompt's tail, for prompts that
/// will be compacted.
void Attention::remember_queries(Step& step, const float* q) const {
  for (const StepSlice& slice : step.slices) {
    if (slice.tail == nullptr) continue;
    const std::size_t rows = std::min<std::size_t>(slice.rows, slice.tail->window());
    for (std::size_t i = slice.rows - rows; i < slice.rows; ++i) {
      std::memcpy(slice.tail->row(slice.logical + i, offsets_.queries),
                  q + (slice.first_row + i) * spec_.q_size(), spec_.q_size() * sizeof(float));
    }
  }
}

void Attention::compact(const CompactionStep& step) const {
  if (spec_.window != 0) return;  // a window stays in the slot, uncompacted
  const KvLayer layer{.heads = spec_.heads,
                      .kv_heads = spec_.kv_heads,
                      .head_dim = spec_.head_dim,
                      .scale = scale_,
                      .kv = kv_,
                      .k = offsets_.k,
                      .v = offsets_.v,
                      .queries = offsets_.queries};
  const PromptPages pages{.from = step.from, .tokens = step.tokens, .into = step.into};
  gather_entries(step.threads, layer, pages,
                 choose_entries(step.threads, layer, pages, step.tail, step.budget));
}

/// q and mixed [rows, heads, head_dim], k and v [rows, kv_heads, head_dim]
void Attention::attend_pages(Step& step, const float* q, const float* k, const float* v, float* mixed) const {
  const std::size_t size = spec_.head_dim;
  const std::size_t head_bytes = gpu::kPageTokens * gpu::kv_row_bytes(kv_, size);
  for (const StepSlice& slice : step.slices) {
    step.threads.for_ranges(slice.rows, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t position = slice.stored + i;
        const std::size_t row = (slice.first_row + i) * spec_.kv_size();
        std::byte* page = slice.sequence->page_data(position / gpu::kPageTokens);
        store(step, k + row, 1, position, page + offsets_.k);
        store(step, v + row, 1, position, page + offsets_.v);
      }
    });
    const std::size_t blocks = (slice.rows + gpu::kAttentionRows - 1) / gpu::kAttentionRows;
    step.threads.for_parts(blocks * spec_.kv_heads, [&](std::size_t part) {
      const std::size_t i = part % blocks * gpu::kAttentionRows;
      // Blocks of one head are adjacent because they read the same pages.
      const std::size_t head = part / blocks;
      const std::size_t first = (slice.first_row + i) * spec_.q_size() + head * spec_.group() * size;
      step.kernels.attention({.q = q + first,
                              .out = mixed + first,
                              .rows = std::min(gpu::kAttentionRows, slice.rows - i),
                              .q_stride = spec_.q_size(),
                              .out_stride = spec_.q_size(),
                              .group = spec_.group(),
                              .head_dim = size,
                              .length = slice.stored + i + 1,
                              .scale = scale_,
                              .pages = slice.pages.data(),
                              .k_offset = offsets_.k + head * head_bytes,
                              .v_offset = offsets_.v + head * head_bytes,
                              .kv = kv_});
    });
  }
}

/// As attend_pages(), with a window. Processes a slice page by page: a ring page that is overwritten is no
/// longer visible to the tokens stored in it, but may be to earlier ones.
void Attention::attend_ring(Step& step, const float* q, const float* k, const float* v, float* mixed) const {
  constexpr std::size_t kPage = gpu::kPageTokens;
  constexpr std::size_t kHeadsOfPart = 4;
  const std::size_t size = spec_.head_dim;
  const std::size_t head_bytes = kPage * gpu::kv_row_bytes(kv_, size);
  const std::size_t page_bytes = 2 * spec_.kv_heads * head_bytes;
  const std::size_t parts_of_head = (spec_.group() + kHeadsOfPart - 1) / kHeadsOfPart;
  const auto first_seen = [&](std::size_t position) {
    return position + 1 > spec_.window ? position + 1 - spec_.window : 0;
  };
  std::vector<const std::byte*> pages;
  for (const StepSlice& slice : step.slices) {
    std::byte* ring = slice.sequence->slot_data() + offsets_.ring;
    const auto page_at = [&](std::size_t page) { return ring + page % spec_.ring_pages() * page_bytes; };
    for (std::size_t done = 0; done < slice.rows;) {
      const std::size_t position = slice.logical + done;
      const std::size_t rows = std::min(slice.rows - done, kPage - position % kPage);
      const std::size_t row = slice.first_row + done;
      store(step, k + row * spec_.kv_size(), rows, position, page_at(position / kPage) + offsets_.k);
      store(step, v + row * spec_.kv_size(), rows, position, page_at(position / kPage) + offsets_.v);
      const std::size_t first_page = first_seen(position) / kPage;
      pages.clear();
      for (std::size_t page = first_page; page <= position / kPage; ++page) pages.push_back(page_at(page));
      step.threads.for_parts(rows * spec_.kv_heads * parts_of_head, [&](std::size_t part) {
        const std::size_t i = part / parts_of_head / spec_.kv_heads;
        const std::size_t head = part / parts_of_head % spec_.kv_heads;
        const std::size_t query = part % parts_of_head * kHeadsOfPart;  // within the group of the KV head
        const std::size_t at = (row + i) * spec_.q_size() + (head * spec_.group() + query) * size;
        const std::size_t begin = first_seen(position + i);
        const std::size_t page = begin / kPage;
        step.kernels.attention({.q = q + at,
                                .out = mixed + at,
                                .group = std::min(kHeadsOfPart, spec_.group() - query),
                                .head_dim = size,
                                .length = position + i + 1 - page * kPage,
                                .skipped = begin - page * kPage,
                                .scale = scale_,
                                .pages = pages.data() + (page - first_page),
                                .k_offset = offsets_.k + head * head_bytes,
                                .v_offset = offsets_.v + head * head_bytes,
                                .kv = kv_});
      });
      done += rows;
    }
  }
}

void Attention::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t rows = step.rows;
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
  if (spec_.window != 0) {
    attend_ring(step, q, k, v, mixed);
  } else {
    remember_queries(step, q);
    attend_pages(step, q, k, v, mixed);
    const std::size_t row_bytes = gpu::kv_row_bytes(kv_, spec_.head_dim);
    export_tails(step, offsets_.k, spec_.kv_heads, row_bytes);
    export_tails(step, offsets_.v, spec_.kv_heads, row_bytes);
  }
  if (gate != nullptr) {
    step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
      const std::size_t first = begin * spec_.q_size();
      step.kernels.gate_sigmoid(gate + first, mixed + first, (end - begin) * spec_.q_size());
    });
  }
  o_.apply(step, mixed, rows, y);
  step.scratch.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const AttentionSpec& spec, BuildContext& context) {
  return std::make_unique<Attention>(spec, context.files, context.options, context.state, context.ropes);
}

}  // namespace reprise::models::cpu
