// Passes of a CudaModel on their way to the GPU: memory, launches, recordings.

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "gpu/cuda/embedding.h"
#include "gpu/cuda/rows.h"
#include "models/cuda/model.h"
#include "traces/gpu_timeline.h"
#include "traces/trace.h"

namespace reprise::models::cuda {
namespace {

// Larger steps take longer than their launches; and there would be too many sizes to record.
constexpr int kMostRecordedDecodes = 64;
constexpr int kMostRecordedSlices = 8;  // of a prefill

// Of a recording's key; the numbers below them have 62 bits.
constexpr std::uint64_t kKeyOfPrefill = std::uint64_t{1} << 63;
constexpr std::uint64_t kKeyRemembers = std::uint64_t{1} << 62;
constexpr std::uint64_t kKeyDraws = std::uint64_t{1} << 62;  // of a decode

std::uint64_t key_number(int value) {
  return static_cast<std::uint64_t>(value);
}
std::uint64_t key_width(int value) {
  return key_number(std::bit_width(static_cast<unsigned>(value)));
}

}  // namespace

std::size_t CudaModel::workspace(const StepSize& size, int picked_rows, int rank) const {
  const std::size_t hidden = config().hidden;
  std::size_t most = 0;
  for (const ResidualStep& step : steps_) most = std::max(most, step.workspace(size, hidden));
  const auto picked = static_cast<std::size_t>(picked_rows);
  const std::size_t kept = handed_on_ + (has_late_ ? hidden : 0);  // of a row beside the stream
  const std::size_t left = leaves_rows_ ? hidden : 0;              // for the next step
  return most + Workspace::rounded(size.padded() * left * sizeof(gc::Bf16)) +
         Workspace::rounded(size.padded() * left / 8 * sizeof(float)) +
         Workspace::rounded(size.padded() * hidden * sizeof(float)) + size.padded() * kept * sizeof(float) +
         2 * Workspace::kAlignment + ropes_.workspace(size.rows) +
         PickedRows::workspace(picked, hidden, size) +
         (precise_
              ? 2 * Workspace::rounded(size.padded() * static_cast<std::size_t>(weights_.most_columns()) *
                                       sizeof(gc::Bf16))
              : 0) +
         Workspace::rounded(picked * static_cast<std::size_t>(head_.outputs()) * sizeof(float)) +
         Workspace::rounded(size.padded() * static_cast<std::size_t>(rank) * sizeof(float)) +
         Workspace::rounded(size.padded() * static_cast<std::size_t>(weights_.most_ordered()) *
                            sizeof(gc::Bf16));
}

void CudaModel::embed(const CudaStep& step, float* x) const {
  const int rows = step.size.rows;
  const float multiplier = config().embedding_multiplier;
  if (first_norm_ && step.unscaled.x != nullptr) {
    gc::embed_bf16_to_stream(step.batch.tokens, rows, embedding_.weight, multiplier, x,
                             first_norm_->into(step.unscaled), ropes_.rows_of(step.batch, step.ropes, 0),
                             step.stream);
    return ropes_.make(step.batch, step.ropes, 1, step.stream);
  }
  ropes_.make(step.batch, step.ropes, 0, step.stream);
  const auto hidden = static_cast<int>(config().hidden);
  gc::embed(step.batch.tokens, rows, embedding_.weight, x, step.stream);
  if (multiplier != 1) gc::scale(x, rows, hidden, multiplier, 0, step.stream);
  if (embedding_norm_) gc::norm_in_place(x, rows, hidden, embedding_norm_->rows(), step.stream);
}

CudaStep CudaModel::step_of(const Pass& pass, Phase phase) {
  const Buffers& buffers = pass.buffers;
  return {.phase = phase,
          .batch = pass.made.batch,
          .gemm = gemm_,
          .workspace = pass.lane.workspace,
          .stream = pass.lane.stream.handle(),
          .size = pass.made.size,
          .ropes = buffers.ropes,
          .adapters = pass.chosen.rows,
          .inner = buffers.inner,
          .ordered = buffers.ordered,
          .terms = buffers.terms,
          .first_values = buffers.first_values,
          .late = buffers.late,
          .staging = &pass.lane.staging,
          .rings = pass.made.rings,
          .unscaled = buffers.unscaled,
          .exports = pass.made.exports};
}

void CudaModel::launch(const Pass& pass, Phase phase) {
  const CudaStep step = step_of(pass, phase);
  embed(step, pass.buffers.x);
  for (const ResidualStep& one : steps_) one.apply(step, pass.buffers.x, config().hidden);
  if (pass.made.picked_rows == 0) return;
  const PickedRows picked{
      .rows = pass.made.picked, .count = pass.made.picked_rows, .adapters = pass.chosen.picked};
  head_.apply(step, pass.buffers.x, picked, pass.buffers.logits);
}

// Everything that a step's launches depend on, or nothing: it is not recorded.
std::optional<std::uint64_t> CudaModel::recording_key(const Pass& pass, Phase phase, bool draws) const {
  // What adapters add is launched for those that are there now; what the host computes is no launch.
  if (!pass.chosen.rows.empty() || host_experts_ != nullptr) return std::nullopt;
  const BatchUpload::Made& made = pass.made;
  if (phase == Phase::kDecode) {
    if (made.picked_rows != made.size.rows || made.size.rows > kMostRecordedDecodes) return std::nullopt;
    return (draws ? kKeyDraws : 0) | key_number(made.size.longest) << 16 | key_number(made.size.rows);
  }
  const int slices = made.batch.slice_count;
  if (slices > kMostRecordedSlices || made.picked_rows > slices) return std::nullopt;
  return kKeyOfPrefill | (made.rings != nullptr ? kKeyRemembers : 0) | key_width(made.size.longest) << 56 |
         key_number(made.size.tiles) << 40 | key_number(made.size.rows / gc::kGrid) << 16 |
         key_number(slices) << 8 | key_number(made.picked_rows);
}

CudaModel::Pass CudaModel::prepare(Lane& lane, std::span<const Slice> slices, Phase phase) {
  Workspace& memory = lane.workspace;
  Pass pass{.lane = lane, .made = lane.upload.make(slices, phase), .chosen = choose(slices), .buffers = {}};
  BatchUpload::Made& made = pass.made;
  made.size.precise = precise_;
  memory.reset();
  const Lane::Space space{
      .size = made.size, .picked_rows = made.picked_rows, .rank = pass.chosen.largest_rank};
  if (lane.space_bytes == 0 || lane.space != space) {
    lane.space = space;
    lane.space_bytes = workspace(space.size, space.picked_rows, space.rank);
  }
  memory.reserve(lane.space_bytes);
  const std::size_t rows = made.size.padded();
  const std::size_t elements = rows * config().hidden;
  Buffers& buffers = pass.buffers;
  buffers.x = memory.take<float>(elements);
  buffers.ropes = ropes_.take(memory, made.size.rows);
  buffers.logits = memory.take<float>(static_cast<std::size_t>(made.picked_rows) *
                                      static_cast<std::size_t>(head_.outputs()));
  if (leaves_rows_ && phase == Phase::kDecode && pass.chosen.rows.empty()) {
    buffers.unscaled = {.x = memory.take<gc::Bf16>(elements), .squares = memory.take<float>(elements / 8)};
  }
  if (weights_.most_ordered() > 0) {
    buffers.ordered = memory.take<gc::Bf16>(rows * static_cast<std::size_t>(weights_.most_ordered()));
  }
  if (precise_) {
    const std::size_t most = rows * static_cast<std::size_t>(weights_.most_columns());
    buffers.terms = {.high = memory.take<gc::Bf16>(most), .low = memory.take<gc::Bf16>(most)};
  }
  if (handed_on_ > 0) buffers.first_values = memory.take<float>(rows * handed_on_);
  if (has_late_) buffers.late = memory.take<float>(elements);
  if (pass.chosen.largest_rank > 0) {
    buffers.inner = memory.take<float>(rows * static_cast<std::size_t>(pass.chosen.largest_rank));
  }
  return pass;
}

CudaModel::Logits CudaModel::enqueue(std::span<const Slice> slices, Phase phase, DeviceDraw* draw) {
  traces::follow_gpu();
  for (const Slice& slice : slices) {
    for (const TokenId token : slice.tokens) {
      REPRISE_CHECK(token >= 0 && static_cast<std::size_t>(token) < config().vocab,
                    "a token is outside the vocabulary");
    }
  }
  Lane& lane = lane_of(phase);
  const gc::StreamHandle stream = lane.stream.handle();
  const Pass pass = prepare(lane, slices, phase);
  lane.is_timed = traces::on();
  if (lane.is_timed) lane.stopwatch.start(stream);
  REPRISE_CHECK(draw == nullptr || draw->rows() == pass.made.picked_rows,
                "the sampled rows and the rows with logits differ in number");
  const std::optional<std::uint64_t> key = recording_key(pass, phase, draw != nullptr);
  // A recording brings what describes its batch itself, where that is little: one launch instead of two.
  const bool brings = key && BatchUpload::fits_recording(pass.made);
  if (!brings) lane.upload.bring(pass.made.bytes, stream);
  const auto all = [&] {
    if (brings) lane.upload.bring(pass.made.most_bytes, stream);
    launch(pass, phase);
    if (draw != nullptr) draw->launch(pass.buffers.logits, head_.outputs(), stream);
  };
  if (key) {
    lane.forget_moved(phase == Phase::kDecode ? draw_.moves() : 0);
    lane.recordings.run(*key, stream, all);
  } else {
    all();
  }
  for (const Slice& slice : slices) {
    const std::size_t begin = slice.sequence->logical();
    slice.sequence->advance(slice.tokens.size());
    if (slice.tail != nullptr) slice.tail->note(begin, slice.sequence->logical());
  }
  return {.rows = pass.buffers.logits, .count = pass.made.picked_rows};
}

}  // namespace reprise::models::cuda
