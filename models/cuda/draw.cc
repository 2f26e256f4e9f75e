#include "models/cuda/draw.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "gpu/cuda/sampling.h"

namespace reprise::models::cuda {
namespace {

/// Whether they had to be replaced.
template <class Bytes>
bool make_room(Bytes& bytes, std::size_t size) {
  if (size <= bytes.size()) return false;
  bytes = Bytes(std::bit_ceil(size));
  return true;
}

}  // namespace

void DeviceDraw::prepare(std::span<const std::optional<DrawPlan>> plans, int vocab) {
  rows_ = static_cast<int>(plans.size());
  vocab_ = vocab;
  std::size_t changes = 0;
  std::size_t masked = 0;
  for (const auto& plan : plans) {
    changes += plan ? plan->adjustments.size() : 0;
    masked += plan && plan->masks ? 1 : 0;
  }
  const auto mask_words = (static_cast<std::size_t>(vocab) + 31) / 32;
  for (const bool moved : {make_room(params_, plans.size() * sizeof(gc::SamplingRow)),
                           make_room(adjustments_, changes * sizeof(gc::LogitAdjustment)),
                           make_room(masks_, masked * mask_words * sizeof(std::uint32_t)),
                           make_room(out_, plans.size() * sizeof(gc::SampledToken)),
                           make_room(workspace_, gc::sampling_workspace(rows_))}) {
    if (moved) ++moves_;
  }
  auto* params = reinterpret_cast<gc::SamplingRow*>(params_.data());
  auto* adjustments = reinterpret_cast<gc::LogitAdjustment*>(adjustments_.data());
  auto* masks = reinterpret_cast<std::uint32_t*>(masks_.data());
  std::int32_t next = 0;
  std::size_t mask_word = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    gc::SamplingRow row{.temperature = 0};
    if (const auto& plan = plans[i]) {
      row = {.temperature = plan->temperature,
             .top_p = plan->top_p,
             .min_p = plan->min_p,
             .u = gc::fixed_uniform(plan->noise),
             .top_k = static_cast<std::int32_t>(
                 std::min<std::int64_t>(plan->top_k, std::numeric_limits<std::int32_t>::max())),
             .first_adjustment = next,
             .adjustments = static_cast<std::int32_t>(plan->adjustments.size())};
      for (const DrawPlan::Adjustment& change : plan->adjustments) {
        adjustments[next++] = {.token = change.token,
                               .bias = change.bias,
                               .penalty = change.penalty,
                               .subtract = change.subtracted};
      }
      if (plan->masks) {
        const SharedMask mask = plan->masks->at(plan->step);
        REPRISE_CHECK(mask != nullptr && mask->bits.size() == mask_words,
                      "the grammar mask of a sampled row is missing or of another size");
        row.first_mask_word = static_cast<std::int32_t>(mask_word);
        std::copy(mask->bits.begin(), mask->bits.end(), masks + mask_word);
        mask_word += mask_words;
      }
    }
    params[i] = row;
  }
}

void DeviceDraw::launch(float* logits, int stride, gc::StreamHandle stream) {
  gc::sample(logits, rows_, vocab_, stride, reinterpret_cast<const gc::SamplingRow*>(params_.data()),
             reinterpret_cast<const gc::LogitAdjustment*>(adjustments_.data()),
             reinterpret_cast<const std::uint32_t*>(masks_.data()), workspace_.data(),
             reinterpret_cast<gc::SampledToken*>(out_.data()), stream);
}

std::vector<std::optional<DecodePass::Drawn>> DeviceDraw::results(
    std::span<const std::optional<DrawPlan>> plans) const {
  const auto* out = reinterpret_cast<const gc::SampledToken*>(out_.data());
  std::vector<std::optional<DecodePass::Drawn>> drawn(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!plans[i]) continue;
    DecodePass::Drawn& one = drawn[i].emplace();
    one.token = out[i].token;
    one.finite = (out[i].health & gc::SampledToken::kNotFinite) == 0;
    if (one.token >= 0) continue;
    const bool usable = (out[i].health & gc::SampledToken::kUsable) != 0;
    one.error = !usable           ? SampleError::kNoLogits
                : plans[i]->masks ? SampleError::kNoneAllowed
                                  : SampleError::kAllBanned;
  }
  return drawn;
}

}  // namespace reprise::models::cuda
