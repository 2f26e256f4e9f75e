#pragma once
// Attention inputs and pages on the GPU, and the CPU's attention as reference.
//
// Pages begin as bytes of 0xff, which are NaN: this shows reads past the end of a sequence and writes outside
// a token's rows.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/cuda/attention/attention.h"
#include "gpu/state/kv_rows.h"
#include "tests/gpu/cuda_attention_shapes.h"
#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::cuda::test {

using gpu::test::Random;

/// Converts between f32 values and rows of activations.
template <class Row>
std::vector<Row> as_rows(const std::vector<float>& values) {
  std::vector<Row> out(values.size());
  if constexpr (std::is_same_v<Row, Bf16>) {
    gpu::test::plain().to_bf16(values.data(), out.data(), values.size());
  } else {
    out = values;
  }
  return out;
}
inline float from_row(Bf16 x) {
  return gpu::test::from_bf16(x);
}
inline float from_row(float x) {
  return x;
}
/// Random values representable in a Row.
template <class Row>
std::vector<float> random_rows(Random& random, std::size_t count) {
  std::vector<float> out;
  for (const Row x : as_rows<Row>(random.floats(count))) out.push_back(from_row(x));
  return out;
}

inline std::size_t row_bytes(const AttentionShape& shape) {
  return kv_row_bytes(shape.kv, static_cast<std::size_t>(shape.head_dim));
}

inline std::size_t page_bytes(const AttentionShape& shape) {
  return shape.v_offset + (shape.v_offset - shape.k_offset);
}

struct Sequence {
  int length = 0;
  int shift = 0;                                        // rope position minus KV index
  std::shared_ptr<const std::vector<float>> projected;  // [length, stride], values representable in a Row
  std::vector<int> pages;                               // indices in the rig's pool
  int slot = 0;                                         // with a window: index in the rig's slots
};

/// Rows [begin, end) of a sequence as one slice.
struct Piece {
  const Sequence* sequence;
  int begin;
  int end;
};

/// Row: element type of activations.
template <class Row = Bf16>
class Rig {
 public:
  Rig(const AttentionShape& shape, int page_count, std::uint64_t seed)
      : shape_(shape),
        stride_(shape.q_width() + 2 * shape.kv_heads * shape.head_dim + 16),
        random_(seed),
        pool_(page_bytes(shape) * static_cast<std::size_t>(page_count)),
        slots_(std::max<std::size_t>(slot_bytes() * kSlots, 1)),
        free_pages_(static_cast<std::size_t>(page_count)) {
    const auto size = static_cast<std::size_t>(shape.head_dim);
    q_norm_ = random_.between(size, 0.5F, 1.5F);
    k_norm_ = random_.between(size, 0.5F, 1.5F);
    for (float& weight : q_norm_) weight -= shape.norm_offset;
    for (float& weight : k_norm_) weight -= shape.norm_offset;
    for (int pair = 0; pair < shape.rope_pairs; ++pair) {
      inv_freq_.push_back(
          std::pow(10000.0F, -static_cast<float>(pair) / static_cast<float>(shape.rope_pairs)));
    }
    std::iota(free_pages_.begin(), free_pages_.end(), 0);
    std::shuffle(free_pages_.begin(), free_pages_.end(), std::mt19937(static_cast<unsigned>(seed)));
    forget();
  }

  const AttentionShape& shape() const { return shape_; }
  std::size_t width() const { return static_cast<std::size_t>(shape_.heads * shape_.head_dim); }

  void forget() {
    fill(pool_.data(), 0xff, pool_.size(), stream_.handle());
    fill(slots_.data(), 0xff, slots_.size(), stream_.handle());
  }

  Sequence sequence(int length) {
    std::vector<float> values = random_rows<Row>(random_, static_cast<std::size_t>(length * stride_));
    return {.length = length,
            .shift = static_cast<int>(random_.size(0, 50)),
            .projected = std::make_shared<const std::vector<float>>(std::move(values)),
            .pages = take_pages(length),
            .slot = take_slot()};
  }
  /// A sequence with given keys and values: per row [kv_heads, head_dim] of K, then of V.
  Sequence sequence_of(const std::vector<Bf16>& keys_and_values) {
    const auto width = static_cast<std::size_t>(2 * shape_.kv_heads * shape_.head_dim);
    Sequence made = sequence(static_cast<int>(keys_and_values.size() / width));
    auto projected = std::make_shared<std::vector<float>>(*made.projected);
    for (std::size_t i = 0; i < keys_and_values.size(); ++i) {
      float* row = projected->data() + i / width * static_cast<std::size_t>(stride_) + shape_.q_width();
      row[i % width] = from_row(keys_and_values[i]);
    }
    made.projected = std::move(projected);
    return made;
  }
  /// Same inputs, other pages.
  Sequence twin(const Sequence& of) {
    Sequence made = of;
    made.pages = take_pages(of.length);
    made.slot = take_slot();
    return made;
  }

  /// Output of all pieces in order, [rows, heads * head_dim]. `filling` padding rows follow them.
  std::vector<Row> prefill(const std::vector<Piece>& pieces, int filling = 0) {
    return run(pieces, true, 0, filling);
  }
  /// Decodes pieces of one row. The batch's `longest` is at least the given value.
  std::vector<Row> decode(const std::vector<Piece>& pieces, int longest = 0) {
    return run(pieces, false, longest, 0);
  }
  /// Like prefill() of one sequence, in slices that end at `cuts`.
  std::vector<Row> prefill_cut(const Sequence& sequence, const std::vector<int>& cuts) {
    std::vector<Row> out;
    int begin = 0;
    for (std::size_t i = 0; i <= cuts.size(); ++i) {
      const int end = i < cuts.size() ? cuts[i] : sequence.length;
      const std::vector<Row> part = prefill({{&sequence, begin, end}});
      out.insert(out.end(), part.begin(), part.end());
      begin = end;
    }
    return out;
  }
  /// Like prefill() of one sequence, decoding rows from `prefilled` on.
  std::vector<Row> decode_from(const Sequence& sequence, int prefilled) {
    std::vector<Row> out;
    if (prefilled > 0) out = prefill({{&sequence, 0, prefilled}});
    for (int row = prefilled; row < sequence.length; ++row) {
      const std::vector<Row> one = decode({{&sequence, row, row + 1}});
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }
  /// Makes the next prefill export its ring after `tile` to the slot of `to`.
  void want_ring(int tile, const Sequence& to) { wanted_.emplace_back(tile, slot_of(to)); }
  std::vector<std::byte> pool() {
    std::vector<std::byte> bytes(pool_.size());
    copy_to_host(bytes.data(), pool_.data(), bytes.size(), stream_.handle());
    stream_.wait();
    return bytes;
  }
  std::vector<std::byte> ring(const Sequence& sequence) {
    std::vector<std::byte> bytes(slot_bytes());
    copy_to_host(bytes.data(), slot_of(sequence), bytes.size(), stream_.handle());
    stream_.wait();
    return bytes;
  }
  void fill_pool(int value) { fill(pool_.data(), value, pool_.size(), stream_.handle()); }

  /// Visits the bytes of the pool that hold tokens [0, length) of a sequence.
  template <class Visit>
  void for_tokens(const Sequence& sequence, int length, const Visit& visit) const {
    const std::size_t size = row_bytes(shape_);
    for (int position = 0; position < length; ++position) {
      const std::size_t page =
          static_cast<std::size_t>(sequence.pages[static_cast<std::size_t>(position / kGrid)]) *
          page_bytes(shape_);
      for (int head = 0; head < shape_.kv_heads; ++head) {
        const std::size_t offset = static_cast<std::size_t>(head * kGrid + position % kGrid) * size;
        visit(page + shape_.k_offset + offset, size);
        visit(page + shape_.v_offset + offset, size);
      }
    }
  }

  /// The CPU's attention of rows [begin, length), as a model composes it; with a pool, over the keys and
  /// values stored there.
  std::vector<float> reference(const Sequence& sequence, int begin,
                               const std::vector<std::byte>& pool = {}) const;

 private:
  static constexpr int kSlots = 8;
  std::size_t slot_bytes() const {
    return static_cast<std::size_t>(shape_.ring_pages) * kGrid * shape_.token_bytes();
  }
  std::byte* slot_of(const Sequence& sequence) const {
    return slots_.data() + static_cast<std::size_t>(sequence.slot) * slot_bytes();
  }
  int take_slot() {
    if (shape_.window == 0) return 0;
    EXPECT_LT(next_slot_, kSlots);
    return next_slot_++;
  }
  /// In random order.
  std::vector<int> take_pages(int length) {
    std::vector<int> taken(static_cast<std::size_t>((length + kGrid - 1) / kGrid));
    for (int& page : taken) {
      page = free_pages_.back();
      free_pages_.pop_back();
    }
    return taken;
  }
  template <class T>
  T* upload(const std::vector<T>& values) {
    uploads_.emplace_back(std::max<std::size_t>(values.size(), 1) * sizeof(T));
    copy_to_device(uploads_.back().data(), values.data(), values.size() * sizeof(T), stream_.handle());
    return uploads_.back().as<T>();
  }
  template <class T>
  T* space(std::size_t count) {
    uploads_.emplace_back(count * sizeof(T));
    fill(uploads_.back().data(), 0xff, count * sizeof(T), stream_.handle());
    return uploads_.back().as<T>();
  }
  std::vector<Row> run(const std::vector<Piece>& pieces, bool is_prefill, int longest, int filling);

  AttentionShape shape_;
  int stride_;
  Random random_;
  Stream stream_;
  DeviceBytes pool_;
  DeviceBytes slots_;
  int next_slot_ = 0;
  std::vector<int> free_pages_;
  std::vector<float> q_norm_, k_norm_, inv_freq_;
  std::vector<DeviceBytes> uploads_;                // alive during one run
  std::vector<std::pair<int, std::byte*>> wanted_;  // exports of the next run: tiles and slots
};

template <class Row>
std::vector<Row> Rig<Row>::run(const std::vector<Piece>& pieces, bool is_prefill, int longest, int filling) {
  std::vector<BatchSlice> slices;
  std::vector<BatchTile> tiles;
  std::vector<std::int32_t> row_slice, positions, first_tiles;
  std::vector<float> projected;
  for (const Piece& piece : pieces) {
    const Sequence& sequence = *piece.sequence;
    const int rows = piece.end - piece.begin;
    std::vector<std::byte*> pages;
    for (int page = 0; page * kGrid < piece.end; ++page) {
      pages.push_back(pool_.data() +
                      static_cast<std::size_t>(sequence.pages[static_cast<std::size_t>(page)]) *
                          page_bytes(shape_));
    }
    const auto index = static_cast<std::int32_t>(slices.size());
    slices.push_back({.first_row = static_cast<std::int32_t>(row_slice.size()),
                      .rows = rows,
                      .stored = piece.begin,
                      .slot = slot_of(sequence),
                      .pages = upload(pages)});
    first_tiles.push_back(static_cast<std::int32_t>(tiles.size()));
    for (int first = 0; is_prefill && first < rows; first += kGrid) tiles.push_back({index, first});
    for (int i = 0; i < rows; ++i) {
      row_slice.push_back(index);
      positions.push_back(piece.begin + i + sequence.shift);
    }
    projected.insert(projected.end(), sequence.projected->begin() + piece.begin * stride_,
                     sequence.projected->begin() + piece.end * stride_);
    longest = std::max(longest, piece.end);
  }
  const std::size_t results = row_slice.size() * width();
  row_slice.insert(row_slice.end(), static_cast<std::size_t>(filling), kNoSlice);
  positions.insert(positions.end(), static_cast<std::size_t>(filling), 0);
  projected.resize(row_slice.size() * static_cast<std::size_t>(stride_), std::nanf(""));
  std::vector<std::byte*> exports(tiles.size(), nullptr);
  for (const auto& [tile, slot] : wanted_) exports[static_cast<std::size_t>(tile)] = slot;
  const auto rows = static_cast<int>(row_slice.size());
  const Batch batch{.slices = upload(slices),
                    .tiles = upload(tiles),
                    .row_slice = upload(row_slice),
                    .tokens = nullptr,
                    .positions = upload(positions),
                    .slice_count = static_cast<int>(slices.size()),
                    .tile_count = static_cast<int>(tiles.size()),
                    .rows = rows,
                    .longest = longest};
  const std::size_t angles = static_cast<std::size_t>(rows * shape_.rope_pairs);
  float* cosine = space<float>(angles);
  float* sine = space<float>(angles);
  rope_table({.positions = batch.positions,
              .inv_freq = upload(inv_freq_),
              .pairs = shape_.rope_pairs,
              .cosine = cosine,
              .sine = sine},
             rows, stream_.handle());
  std::vector<Row> out(static_cast<std::size_t>(rows) * width());
  AttentionPass<Row> pass{
      .projected = upload(as_rows<Row>(projected)),
      .stride = stride_,
      .q_norm = shape_.qk_norm ? upload(q_norm_) : nullptr,
      .k_norm = shape_.qk_norm ? upload(k_norm_) : nullptr,
      .rope_cos = cosine,
      .rope_sin = sine,
      .out = space<Row>(out.size()),
      .workspace = space<std::byte>(attention_workspace<Row>(shape_, rows, batch.tile_count, longest))};
  if (!wanted_.empty()) pass.exports = {.tiles = upload(exports), .first_tiles = upload(first_tiles)};
  if (is_prefill) {
    attention_prefill(shape_, batch, pass, stream_.handle());
  } else {
    attention_decode(shape_, batch, pass, stream_.handle());
  }
  copy_to_host(out.data(), reinterpret_cast<const std::byte*>(pass.out), out.size() * sizeof(Row),
               stream_.handle());
  stream_.wait();
  uploads_.clear();
  wanted_.clear();
  out.resize(results);
  return out;
}

template <class Row>
std::vector<float> Rig<Row>::reference(const Sequence& sequence, int begin,
                                       const std::vector<std::byte>& pool) const {
  // f32 functions of every table are bitwise identical to the plain ones.
  const Kernels& kernels = cpu_kernels(best_isa());
  const auto size = static_cast<std::size_t>(shape_.head_dim);
  const auto pairs = static_cast<std::size_t>(shape_.rope_pairs);
  const auto group = static_cast<std::size_t>(shape_.group());
  const std::size_t pitch = shape_.output_gate ? 2 * size : size;
  std::vector<std::vector<std::byte>> pages(sequence.pages.size(),
                                            std::vector<std::byte>(page_bytes(shape_)));
  std::vector<const std::byte*> pointers;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (!pool.empty()) {
      std::memcpy(pages[i].data(), &pool[static_cast<std::size_t>(sequence.pages[i]) * pages[i].size()],
                  pages[i].size());
    }
    pointers.push_back(pages[i].data());
  }
  std::vector<float> all;
  for (int row = 0; row < sequence.length; ++row) {
    const auto given = sequence.projected->begin() + row * stride_;
    std::vector<float> x(given, given + stride_);
    std::vector<float> cosine, sine;
    for (const float frequency : inv_freq_) {
      const float angle = static_cast<float>(row + sequence.shift) * frequency;
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
    const auto norm_and_rotate = [&](float* head, const std::vector<float>& weight) {
      if (shape_.qk_norm) {
        kernels.rms_norm(head, weight.data(), shape_.norm_offset, shape_.norm_eps, head, 1, size, size);
      }
      kernels.rope(head, cosine.data(), sine.data(), pairs);
    };
    float* k = x.data() + shape_.q_width();
    float* v = k + static_cast<std::size_t>(shape_.kv_heads) * size;
    for (std::size_t head = 0; head < static_cast<std::size_t>(shape_.kv_heads); ++head) {
      norm_and_rotate(k + head * size, k_norm_);
      std::byte* page = pages[static_cast<std::size_t>(row / kGrid)].data();
      const std::size_t offset = (head * kGrid + static_cast<std::size_t>(row % kGrid)) * row_bytes(shape_);
      const auto store = [&](const float* from, std::byte* to) {
        if (!pool.empty()) return;
        if (is_quantized(shape_.kv)) {
          store_quantized_row(shape_.kv, from, size, to);
        } else if (shape_.kv == KvType::kF32) {
          std::memcpy(to, from, size * sizeof(float));
        } else {
          kernels.to_bf16(from, reinterpret_cast<Bf16*>(to), size);
        }
      };
      store(k + head * size, page + shape_.k_offset + offset);
      store(v + head * size, page + shape_.v_offset + offset);
    }
    if (row < begin) continue;
    std::vector<float> q, gate, out(width());
    for (std::size_t head = 0; head < static_cast<std::size_t>(shape_.heads); ++head) {
      const float* from = x.data() + head * pitch;
      q.insert(q.end(), from, from + size);
      gate.insert(gate.end(), from + pitch - size, from + pitch);
      norm_and_rotate(q.data() + head * size, q_norm_);
    }
    const int first = shape_.window == 0 ? 0 : std::max(0, row + 1 - shape_.window);
    const auto first_page = static_cast<std::size_t>(first / kGrid);
    for (std::size_t head = 0; head < static_cast<std::size_t>(shape_.kv_heads); ++head) {
      kernels.attention({.q = q.data() + head * group * size,
                         .out = out.data() + head * group * size,
                         .group = group,
                         .head_dim = size,
                         .length = static_cast<std::size_t>(row) + 1 - first_page * kGrid,
                         .skipped = static_cast<std::size_t>(first % kGrid),
                         .scale = shape_.score_multiplier / std::sqrt(static_cast<float>(size)),
                         .pages = pointers.data() + first_page,
                         .k_offset = shape_.k_offset + head * kGrid * row_bytes(shape_),
                         .v_offset = shape_.v_offset + head * kGrid * row_bytes(shape_),
                         .kv = shape_.kv});
    }
    if (shape_.output_gate) kernels.gate_sigmoid(gate.data(), out.data(), out.size());
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

template <class Row>
inline constexpr double kUsualBound = std::is_same_v<Row, float> ? 2e-5 : 1e-2;

/// Compares rows of `width` elements up to bf16 rounding.
inline testing::AssertionResult close(const Bf16* out, const std::vector<float>& wanted, std::size_t width,
                                      double bound = kUsualBound<Bf16>) {
  for (std::size_t row = 0; row < wanted.size() / width; ++row) {
    double error = 0;
    double size = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      const double difference =
          static_cast<double>(gpu::test::from_bf16(out[i])) - static_cast<double>(wanted[i]);
      error += difference * difference;
      size += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
    }
    const double relative = std::sqrt(error / size);
    if (!(relative < bound)) {  // also fails for NaN
      return testing::AssertionFailure() << "row " << row << ": relative error " << relative;
    }
  }
  return testing::AssertionSuccess();
}

/// Allows errors of `bound` times the row's largest magnitude.
inline testing::AssertionResult close(const float* out, const std::vector<float>& wanted, std::size_t width,
                                      double bound = kUsualBound<float>) {
  for (std::size_t row = 0; row < wanted.size() / width; ++row) {
    float largest = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      largest = std::max(largest, std::abs(wanted[i]));
    }
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      const float error = std::abs(out[i] - wanted[i]);
      if (!(static_cast<double>(error) <= bound * static_cast<double>(largest))) {  // also fails for NaN
        return testing::AssertionFailure() << "row " << row << ", " << i % width << ": " << out[i] << ", not "
                                           << wanted[i] << "; the largest is " << largest;
      }
    }
  }
  return testing::AssertionSuccess();
}

/// Prefills sequences of these lengths in one batch.
template <class Row>
void compare_prefill(Rig<Row>& rig, const std::vector<int>& lengths, double bound = kUsualBound<Row>) {
  std::vector<Sequence> sequences;
  std::vector<Piece> pieces;
  for (const int length : lengths) sequences.push_back(rig.sequence(length));
  for (const Sequence& sequence : sequences) pieces.push_back({&sequence, 0, sequence.length});
  const std::vector<Row> out = rig.prefill(pieces);
  std::size_t row = 0;
  for (const Sequence& sequence : sequences) {
    EXPECT_TRUE(close(out.data() + row * rig.width(), rig.reference(sequence, 0), rig.width(), bound))
        << "length " << sequence.length;
    row += static_cast<std::size_t>(sequence.length);
  }
}

template <class Row>
std::vector<Row> rows_of(const std::vector<Row>& out, std::size_t begin, std::size_t end, std::size_t width) {
  return {out.begin() + static_cast<std::ptrdiff_t>(begin * width),
          out.begin() + static_cast<std::ptrdiff_t>(end * width)};
}

}  // namespace reprise::gpu::cuda::test
