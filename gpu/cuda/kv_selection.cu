// The queries of a prompt's last tokens, the choice among its places, and the way of what was chosen into other pages.
#include "gpu/cuda/kv_selection.h"

#include "base/check.h"
#include "gpu/cuda/attention_parts.h"
#include "gpu/cuda/error.h"
#include "gpu/cuda/row_element.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kRememberThreads = 128;
constexpr int kChooseThreads = 512;
constexpr int kChooseWarps = kChooseThreads / 32;
constexpr int kDigits = 256;  // eight bits of a score at a time
constexpr int kGatherWarps = 8;

/// Grid: rows.
template <class Row>
__global__ void __launch_bounds__(kRememberThreads)
    copy_queries(AttentionShape shape, Batch batch, const Row* q, const QueryRing* rings,
                 std::size_t offset) {
  const int row = static_cast<int>(blockIdx.x);
  const int index = batch.row_slice[row];
  if (index == kNoSlice) return;
  const QueryRing ring = rings[index];
  const BatchSlice& slice = batch.slices[index];
  if (ring.rows == nullptr || row - slice.first_row < slice.rows - ring.window) return;
  const int size = shape.heads * shape.head_dim;
  const Row* from = q + static_cast<std::size_t>(row) * size;
  auto* to = reinterpret_cast<Bf16*>(
      ring.rows + static_cast<std::size_t>(batch.positions[row] % ring.window) * ring.row_bytes + offset);
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kRememberThreads) {
    store_row(to[i], load_row(from[i]));
  }
}

/// A number whose order is that of scores; what is not a number is as low as can be.
__device__ __forceinline__ std::uint32_t order_of(float score) {
  constexpr std::uint32_t kSign = 0x80000000U;
  const bool is_number = score == score;
  const std::uint32_t bits = score == 0 ? 0 : __float_as_uint(is_number ? score : -__builtin_huge_valf());
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// All threads: how many of `counts` stand before the thread's own; `all` becomes their sum.
__device__ __forceinline__ std::uint32_t counted_before(std::uint32_t count,
                                                        std::uint32_t (&warps)[kChooseWarps],
                                                        std::uint32_t& all) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t upto = count;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const std::uint32_t other = __shfl_up_sync(0xffffffffU, upto, step);
    if (lane >= step) upto += other;
  }
  __syncthreads();  // what was there has been read
  if (lane == 31) warps[warp] = upto;
  __syncthreads();
  std::uint32_t before = upto - count;
  all = 0;
  for (int i = 0; i < kChooseWarps; ++i) {
    if (i < warp) before += warps[i];
    all += warps[i];
  }
  return before;
}

/// Grid: key/value heads. The score that the last one kept has is found digit by digit, from the highest; then places are
/// counted off in their order: those above it, and of those that have it as many as are left.
__global__ void __launch_bounds__(kChooseThreads)
    choose(PromptOfLayer prompt, const float* scores, std::uint32_t* kept) {
  __shared__ std::uint32_t counts[kDigits];
  __shared__ std::uint32_t warps[kChooseWarps];
  __shared__ std::uint32_t found_digit;
  __shared__ std::uint32_t found_left;
  const int thread = static_cast<int>(threadIdx.x);
  const int scored = prompt.scored;
  const auto budget = static_cast<int>(prompt.budget.tokens);
  const auto sinks = static_cast<int>(prompt.budget.sinks);
  const int wanted = budget - static_cast<int>(prompt.budget.window + prompt.budget.sinks);
  const float* own = scores + static_cast<std::size_t>(blockIdx.x) * scored;
  std::uint32_t* to = kept + static_cast<std::size_t>(blockIdx.x) * budget;
  for (int i = thread; i < sinks; i += kChooseThreads) to[i] = static_cast<std::uint32_t>(i);
  for (int i = thread; i < budget - sinks - wanted; i += kChooseThreads) {
    to[sinks + wanted + i] = static_cast<std::uint32_t>(scored + i);
  }
  if (wanted == 0) return;

  std::uint32_t last = 0;  // score of the last one kept, as far as it is known
  std::uint32_t known = 0;
  auto left = static_cast<std::uint32_t>(wanted);  // to be kept among those that begin like it
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = thread; i < kDigits; i += kChooseThreads) counts[i] = 0;
    __syncthreads();
    for (int place = sinks + thread; place < scored; place += kChooseThreads) {
      const std::uint32_t order = order_of(own[place]);
      if ((order & known) == last) atomicAdd(&counts[order >> shift & (kDigits - 1)], 1U);
    }
    __syncthreads();
    if (thread == 0) {
      std::uint32_t above = 0;
      int digit = kDigits - 1;
      while (above + counts[digit] < left) above += counts[digit--];
      found_digit = static_cast<std::uint32_t>(digit);
      found_left = left - above;
    }
    __syncthreads();
    last |= found_digit << shift;
    left = found_left;
    known |= static_cast<std::uint32_t>(kDigits - 1) << shift;
  }

  constexpr int kEqual = 16;  // bits for those above, of a turn; then those equal
  std::uint32_t above_before = 0;
  std::uint32_t equal_before = 0;
  for (int first = sinks; first < scored; first += kChooseThreads) {
    const int place = first + thread;
    const std::uint32_t order = place < scored ? order_of(own[place]) : 0;
    const bool is_above = place < scored && order > last;
    const bool is_equal = place < scored && order == last;
    std::uint32_t all = 0;
    const std::uint32_t before =
        counted_before((is_above ? 1U : 0U) | (is_equal ? 1U << kEqual : 0U), warps, all);
    const std::uint32_t above = above_before + (before & ((1U << kEqual) - 1));
    const std::uint32_t equal = equal_before + (before >> kEqual);
    if (is_above || (is_equal && equal < left)) {
      to[sinks + above + (equal < left ? equal : left)] = static_cast<std::uint32_t>(place);
    }
    above_before += all & ((1U << kEqual) - 1);
    equal_before += all >> kEqual;
  }
}

/// Grid: blocks of kept places, key/value heads; a warp has one place. Rows are moved in pieces of Unit.
template <class Unit>
__global__ void __launch_bounds__(32 * kGatherWarps)
    gather(PromptOfLayer prompt, std::size_t row_bytes, const std::uint32_t* kept) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int place = static_cast<int>(blockIdx.x) * kGatherWarps + static_cast<int>(threadIdx.x) / 32;
  const auto budget = static_cast<int>(prompt.budget.tokens);
  if (place >= budget) return;
  const int from = static_cast<int>(kept[static_cast<std::size_t>(blockIdx.y) * budget + place]);
  const auto row = [&](std::byte* page, std::size_t part, int at) {
    return reinterpret_cast<Unit*>(page + part +
                                   (static_cast<std::size_t>(blockIdx.y) * kGrid + at % kGrid) * row_bytes);
  };
  const auto units = static_cast<int>(row_bytes / sizeof(Unit));
  const Unit* k = row(prompt.pages[from / kGrid], prompt.shape.k_offset, from);
  const Unit* v = row(prompt.pages[from / kGrid], prompt.shape.v_offset, from);
  Unit* k_to = row(prompt.into[place / kGrid], prompt.shape.k_offset, place);
  Unit* v_to = row(prompt.into[place / kGrid], prompt.shape.v_offset, place);
  for (int i = lane; i < units; i += 32) {
    k_to[i] = k[i];
    v_to[i] = v[i];
  }
}

constexpr std::size_t kSpaceAlignment = 256;

/// Hands out memory from the front, or only counts what it would hand out.
class SpaceCutter {
 public:
  explicit SpaceCutter(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(std::size_t count) {
    const std::size_t at = used_;
    used_ += (count * sizeof(T) + kSpaceAlignment - 1) / kSpaceAlignment * kSpaceAlignment;
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + at);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

CompactionSpace cut(SpaceCutter& cutter, const AttentionShape& shape, std::size_t tokens,
                    const KvBudget& budget) {
  const auto heads = static_cast<std::size_t>(shape.heads);
  const auto kv_heads = static_cast<std::size_t>(shape.kv_heads);
  const std::size_t queries = heads * kQueriesAtOnce;
  const std::size_t pages = (tokens + kGrid - 1) / kGrid;
  const std::size_t scored = tokens - budget.window;
  return {.of_pages = cutter.take<CompactionSpace::Seen>(queries * pages),
          .of_prompt = cutter.take<CompactionSpace::Seen>(queries),
          .sums = cutter.take<float>(heads * scored),
          .scores = cutter.take<float>(kv_heads * scored),
          .kept = cutter.take<std::uint32_t>(kv_heads * budget.tokens)};
}

}  // namespace

std::size_t CompactionSpace::bytes(const AttentionShape& shape, std::size_t tokens, const KvBudget& budget) {
  SpaceCutter counter(nullptr);
  cut(counter, shape, tokens, budget);
  return counter.used();
}

CompactionSpace CompactionSpace::of(const AttentionShape& shape, std::size_t tokens, const KvBudget& budget,
                                    std::byte* memory) {
  SpaceCutter cutter(memory);
  return cut(cutter, shape, tokens, budget);
}

template <class Row>
void remember_queries(const AttentionShape& shape, const Batch& batch, const AttentionPass<Row>& pass,
                      const QueryRing* rings, std::size_t offset, StreamHandle stream) {
  if (batch.rows == 0) return;
  REPRISE_CHECK(offset % 16 == 0, "the offset of the saved queries is not a multiple of 16");
  copy_queries<<<static_cast<unsigned>(batch.rows), kRememberThreads, 0, stream>>>(
      shape, batch, reinterpret_cast<const Row*>(pass.workspace), rings, offset);
  check_launch("the queries of a prompt's last tokens");
}
template void remember_queries(const AttentionShape&, const Batch&, const AttentionPass<Bf16>&,
                               const QueryRing*, std::size_t, StreamHandle);
template void remember_queries(const AttentionShape&, const Batch&, const AttentionPass<float>&,
                               const QueryRing*, std::size_t, StreamHandle);

void choose_places(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream) {
  const KvBudget& budget = prompt.budget;
  REPRISE_CHECK(
      budget.shortens(static_cast<std::uint64_t>(prompt.tokens)) && budget.tokens >= budget.fixed(),
      "KV entries were selected although the budget does not shorten the prompt, or is below its fixed part");
  choose<<<static_cast<unsigned>(prompt.shape.kv_heads), kChooseThreads, 0, stream>>>(prompt, space.scores,
                                                                                      space.kept);
  check_launch("the choice of a prompt's places");
}

void gather_places(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream) {
  const dim3 blocks((prompt.budget.tokens + kGatherWarps - 1) / kGatherWarps,
                    static_cast<unsigned>(prompt.shape.kv_heads));
  const std::size_t row_bytes =
      kv_row_bytes(prompt.shape.kv, static_cast<std::size_t>(prompt.shape.head_dim));
  if (row_bytes % sizeof(uint4) == 0) {
    gather<uint4><<<blocks, 32 * kGatherWarps, 0, stream>>>(prompt, row_bytes, space.kept);
  } else {
    REPRISE_CHECK(row_bytes % sizeof(std::uint16_t) == 0, "a row of keys has an odd number of bytes");
    gather<std::uint16_t><<<blocks, 32 * kGatherWarps, 0, stream>>>(prompt, row_bytes, space.kept);
  }
  check_launch("the gathering of a prompt's places");
}

}  // namespace reprise::gpu::cuda
