#include "models/cuda/packed_upload.h"

#include <algorithm>

#include "models/weight_tensors.h"
#include "traces/trace.h"

namespace reprise::models::cuda {
namespace {

constexpr std::size_t kStagingBytes = 64 << 20;
constexpr std::size_t kStagingAlignment = 256;

std::size_t on_alignment(std::size_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

/// Whether the second's bytes follow the first's in a file.
bool follows(const Tensor& first, const Tensor& second) {
  return first.owned == nullptr && second.owned == nullptr &&
         first.bytes.data() + first.bytes.size() == second.bytes.data();
}

}  // namespace

void PackedUpload::add(Tensor tensor, const gc::DeviceWeight& to, std::size_t row) {
  Matrix matrix{.tensor = std::move(tensor), .to = to, .row = row};
  const std::size_t scale_bytes = on_alignment(matrix.tensor.scales.size());
  const std::size_t bytes = on_alignment(matrix.tensor.bytes.size()) + scale_bytes;
  if (bytes > kStagingBytes) return add_in_turns(std::move(matrix));
  if (waiting_bytes_ + bytes > kStagingBytes) flush();
  matrix.scales_at = waiting_bytes_;
  matrix.data_at = waiting_bytes_ + scale_bytes;
  if (scale_bytes == 0 && !waiting_.empty() && follows(waiting_.back().tensor, matrix.tensor)) {
    matrix.data_at = waiting_.back().data_at + waiting_.back().tensor.bytes.size();
  }
  waiting_bytes_ = on_alignment(matrix.data_at + matrix.tensor.bytes.size());
  waiting_.push_back(std::move(matrix));
}

void PackedUpload::flush() {
  if (waiting_.empty()) return;
  static constexpr traces::ZoneSite kSite{"upload"};
  traces::Zone zone(kSite);
  if (zone.on()) zone.text(std::to_string(waiting_bytes_) + " bytes");
  reserve(waiting_bytes_);
  copy_together(waiting_);
  for (const Matrix& matrix : waiting_) pack(matrix, 0, view_of(matrix.tensor).rows);
  stream_.wait();  // the sources may go
  waiting_.clear();
  waiting_bytes_ = 0;
}

void PackedUpload::reserve(std::size_t bytes) {
  if (bytes <= staging_.size()) return;
  stream_.wait();
  staging_ = gc::DeviceBytes();
  staging_ = gc::DeviceBytes(bytes);
}

void PackedUpload::copy_together(std::span<const Matrix> matrices) {
  for (std::size_t i = 0; i < matrices.size();) {
    const Matrix& first = matrices[i];
    gc::copy_to_device(staging_.data() + first.scales_at, first.tensor.scales.data(),
                       first.tensor.scales.size(), stream_.handle());
    std::size_t bytes = first.tensor.bytes.size();
    for (++i; i < matrices.size() && matrices[i].data_at == first.data_at + bytes &&
              follows(matrices[i - 1].tensor, matrices[i].tensor);
         ++i) {
      bytes += matrices[i].tensor.bytes.size();
    }
    gc::copy_to_device(staging_.data() + first.data_at, first.tensor.bytes.data(), bytes, stream_.handle());
  }
}

void PackedUpload::pack(const Matrix& matrix, std::size_t first, std::size_t rows) {
  const gpu::WeightView from = view_of(matrix.tensor);
  matrix.to.format->pack({.format = from.format,
                          .data = staging_.data() + matrix.data_at,
                          .scales = reinterpret_cast<const float*>(staging_.data() + matrix.scales_at),
                          .rows = static_cast<int>(rows),
                          .columns = static_cast<int>(from.columns),
                          .first = static_cast<int>(first)},
                         matrix.to, static_cast<int>(matrix.row + first), stream_.handle());
}

void PackedUpload::add_in_turns(Matrix matrix) {
  flush();
  const gpu::WeightView from = view_of(matrix.tensor);
  matrix.data_at = on_alignment(matrix.tensor.scales.size());
  const std::size_t turn = std::clamp<std::size_t>(kStagingBytes / from.row_bytes(), 1, from.rows);
  reserve(matrix.data_at + turn * from.row_bytes());
  gc::copy_to_device(staging_.data(), matrix.tensor.scales.data(), matrix.tensor.scales.size(),
                     stream_.handle());
  for (std::size_t first = 0; first < from.rows; first += turn) {
    const std::size_t rows = std::min(turn, from.rows - first);
    gc::copy_to_device(staging_.data() + matrix.data_at, from.row(first), rows * from.row_bytes(),
                       stream_.handle());
    pack(matrix, first, rows);
    stream_.wait();  // the source may go
  }
}

}  // namespace reprise::models::cuda
