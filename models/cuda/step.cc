#include "models/cuda/step.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/rows/rows.h"

namespace reprise::models::cuda {

HostStaging::Scratch HostStaging::take(std::size_t down_bytes, std::size_t up_bytes) {
  const auto grow = [&](gc::PinnedBytes& memory, std::size_t bytes) {
    if (bytes <= memory.size()) return;
    stream_.wait();  // it may still be read
    memory = gc::PinnedBytes();
    memory = gc::PinnedBytes(std::bit_ceil(bytes));
  };
  grow(down_, down_bytes);
  grow(up_, up_bytes);
  return {.down = down_.data(), .up = up_.data()};
}

std::size_t RopeTables::add(const std::shared_ptr<const RopeConfig>& rope, WeightStore& weights) {
  const auto found =
      std::find_if(ropes_.begin(), ropes_.end(), [&](const Rope& known) { return known.config == rope; });
  const auto index = static_cast<std::size_t>(found - ropes_.begin());
  if (found == ropes_.end()) ropes_.push_back({.config = rope, .inv_freq = weights.vector(rope->inv_freq)});
  return index;
}

std::size_t RopeTables::workspace(int rows) const {
  std::size_t bytes = 0;
  for (const Rope& rope : ropes_) {
    bytes += 2 * Workspace::rounded(static_cast<std::size_t>(rows) * rope.pairs() * sizeof(float));
  }
  return bytes;
}

std::vector<RopeTable> RopeTables::take(Workspace& workspace, int rows) const {
  std::vector<RopeTable> tables;
  for (const Rope& rope : ropes_) {
    const std::size_t angles = static_cast<std::size_t>(rows) * rope.pairs();
    tables.push_back({.cosine = workspace.take<float>(angles), .sine = workspace.take<float>(angles)});
  }
  return tables;
}

void RopeTables::make(const gc::Batch& batch, std::span<const RopeTable> tables, std::size_t first,
                      gc::StreamHandle stream) const {
  for (std::size_t i = first; i < ropes_.size(); ++i) {
    gc::rope_table(rows_of(batch, tables, i), batch.rows, stream);
  }
}

gc::RopeRows RopeTables::rows_of(const gc::Batch& batch, std::span<const RopeTable> tables,
                                 std::size_t index) const {
  if (index >= ropes_.size()) return {};
  const Rope& rope = ropes_[index];
  return {.positions = batch.positions,
          .inv_freq = rope.inv_freq,
          .pairs = static_cast<int>(rope.pairs()),
          .factor = rope.config->attention_factor,
          .cosine = tables[index].cosine,
          .sine = tables[index].sine};
}

std::byte* Workspace::bytes(std::size_t count) {
  const std::size_t begin = next_;
  next_ += rounded(count);
  REPRISE_CHECK(next_ <= memory_.size(), "the step needs more scratch memory than was reserved");
  return memory_.data() + begin;
}

void CudaStep::multiply(const PartInput& x, const DeviceLinear& linear, void* y,
                        gc::GemmOutput output) const {
  if (x.x != nullptr) return multiply(x.x, linear, y, output);
  if (x.wide != nullptr) return multiply(x.wide, linear, y, output);
  const std::size_t element = output == gc::GemmOutput::kBf16 ? sizeof(gc::Bf16) : sizeof(float);
  auto* to = static_cast<std::byte*>(y);
  for (const gc::DeviceWeight& part : linear.parts) {
    if (x.raw.x != nullptr) {
      part.format->fused->normed(x.raw, batch.rows, part, to, output, stream);
    } else {
      part.format->fused->unscaled(x.unscaled, batch.rows, part, to, output, stream);
    }
    to += static_cast<std::size_t>(part.rows) * element;
  }
}

void CudaStep::multiply(const gc::Bf16* x, const DeviceLinear& linear, const PartOutput& to) const {
  if (to.next == nullptr) return multiply(x, linear, to.y, to.how);
  linear.weight.format->fused->to_residual(x, batch.rows, linear.weight, to.y, *to.next, stream);
}

void CudaStep::multiply(const float* x, const DeviceLinear& linear, const PartOutput& to) const {
  REPRISE_CHECK(to.next == nullptr, "a precise step was asked to defer a norm");
  multiply(x, linear, to.y, to.how);
}

bool CudaStep::takes_raw(const DeviceLinear& linear) const {
  return phase == Phase::kDecode && adapters.empty() && !size.precise && linear.is_fused() &&
         batch.rows * linear.weight.columns <= linear.max_normed() && batch.rows <= gc::kMaxNormedRows;
}

bool CudaStep::gates(const DeviceLinear& linear, int outputs) const {
  if (!adapters.empty() || size.precise) return false;
  if (phase == Phase::kDecode) return can_gate(linear, outputs);
  return linear.bias == nullptr && linear.column_order == nullptr && linear.weight.rows == 2 * outputs &&
         gemm.gates(linear.parts, batch.rows);
}

bool CudaStep::can_gate(const DeviceLinear& linear, int outputs) {
  return linear.is_fused() && linear.parts.size() == 1 && linear.weight.rows == 2 * outputs &&
         outputs % linear.weight.format->rows_together == 0;
}

void CudaStep::multiply_plain(const gc::Bf16* x, const DeviceLinear& linear, void* y,
                              gc::GemmOutput output) const {
  if (phase == Phase::kPrefill) {
    gemm.multiply(x, batch.rows, linear.parts, y, output, stream);
  } else {
    gc::decode_gemm(x, batch.rows, linear.parts, y, output, stream);
  }
}

void CudaStep::add_bias(const DeviceLinear& linear, void* y, gc::GemmOutput output) const {
  if (linear.bias == nullptr) return;
  if (output == gc::GemmOutput::kBf16) {
    gc::add_bias(static_cast<gc::Bf16*>(y), batch.rows, linear.weight.rows, linear.bias, stream);
  } else {
    gc::add_bias(static_cast<float*>(y), batch.rows, linear.weight.rows, linear.bias, stream);
  }
}

void CudaStep::multiply(const gc::Bf16* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const {
  multiply_plain(in_order(x, linear), linear, y, output);
  add_bias(linear, y, output);
  if (!adapters.empty()) add_changes(x, linear, y, output);
}

void CudaStep::multiply(const float* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const {
  REPRISE_CHECK(output != gc::GemmOutput::kBf16, "a precise GEMM was given a bf16 output");
  REPRISE_CHECK(linear.column_order == nullptr, "a precise GEMM was given reordered columns");
  gc::split_rows(x, batch.rows, linear.weight.columns, terms, stream);
  multiply_plain(terms.high, linear, y, output);
  multiply_plain(terms.low, linear, y, gc::GemmOutput::kAddF32);
  add_bias(linear, y, output);
  if (!adapters.empty()) add_changes(x, linear, y, output);
}

const gc::Bf16* CudaStep::in_order(const gc::Bf16* x, const DeviceLinear& linear) const {
  if (linear.column_order == nullptr) return x;
  gc::order_columns(x, batch.rows, linear.weight.columns, linear.column_order, ordered, stream);
  return ordered;
}

template <class Row>
void CudaStep::add_changes(const Row* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const {
  const bool is_bf16 = output == gc::GemmOutput::kBf16;
  const std::size_t element = is_bf16 ? sizeof(gc::Bf16) : sizeof(float);
  const auto stride = static_cast<std::size_t>(linear.weight.rows);
  for (const AdapterRows& chosen : adapters) {
    const auto row = static_cast<std::size_t>(chosen.first_row);
    for (const DeviceLinear::Layer& layer : linear.layers) {
      const gc::LowRank* change = chosen.adapter->find(layer.name);
      if (change == nullptr) continue;
      const std::size_t offset = row * stride + static_cast<std::size_t>(layer.first);
      gc::add_low_rank(*change,
                       gc::LowRankRows<Row>{.x = x + row * static_cast<std::size_t>(linear.weight.columns),
                                            .rows = chosen.rows,
                                            .inner = inner,
                                            .y = static_cast<std::byte*>(y) + offset * element,
                                            .stride = linear.weight.rows,
                                            .y_is_bf16 = is_bf16},
                       stream);
    }
  }
}
template void CudaStep::add_changes(const gc::Bf16*, const DeviceLinear&, void*, gc::GemmOutput) const;
template void CudaStep::add_changes(const float*, const DeviceLinear&, void*, gc::GemmOutput) const;

}  // namespace reprise::models::cuda
