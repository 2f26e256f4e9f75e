#include "models/parts/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <tuple>

namespace reprise::models {
namespace {

using Scaling = RopeConfig::Scaling;

// Returns the divisor of a frequency: 1 for short waves, `factor` for waves longer than the original context
// covers, and a smooth ramp between.
double llama3_divisor(double inv_freq, const RopeConfig& rope) {
  const double context = static_cast<double>(rope.original_context);
  const double wave = 2 * std::numbers::pi / inv_freq;
  if (wave < context / rope.high_freq_factor) return 1;
  if (wave > context / rope.low_freq_factor) return rope.factor;
  const double smooth =
      (context / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return 1 / ((1 - smooth) / rope.factor + smooth);
}

// YaRN's ramp, by the full rotations of a pair within the original context: pairs with at least beta_fast
// keep their frequency, those with at most beta_slow are divided by `factor`.
class YarnRamp {
 public:
  explicit YarnRamp(const RopeConfig& rope) : factor_(rope.factor) {
    const auto dimension = static_cast<double>(rope.dimension);
    const auto pair_with_turns = [&](double turns) {
      const double context = static_cast<double>(rope.original_context);
      return dimension * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
    };
    double low = pair_with_turns(rope.beta_fast);
    double high = pair_with_turns(rope.beta_slow);
    if (rope.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low_ = std::max(low, 0.0);
    high_ = std::min(high, dimension - 1);
    if (low_ == high_) high_ += 0.001;
  }

  double divisor(std::size_t pair) const {
    const double ramp = std::clamp((static_cast<double>(pair) - low_) / (high_ - low_), 0.0, 1.0);
    return 1 / (ramp / factor_ + (1 - ramp));
  }

 private:
  double factor_;
  double low_ = 0;
  double high_ = 0;
};

std::vector<float> make_inv_freq(const RopeConfig& rope) {
  std::vector<float> out(rope.dimension / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    double inv_freq =
        std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rope.dimension));
    switch (rope.scaling) {
      case Scaling::kNone:
        break;
      case Scaling::kLinear:
        inv_freq /= rope.factor;
        break;
      case Scaling::kLlama3:
        inv_freq /= llama3_divisor(inv_freq, rope);
        break;
      case Scaling::kYarn:
        inv_freq /= YarnRamp(rope).divisor(i);
        break;
      case Scaling::kTable:
        inv_freq /= static_cast<double>(rope.table[i]);
        break;
    }
    out[i] = static_cast<float>(inv_freq);
  }
  return out;
}

bool positive(double value) {
  return value > 0 && std::isfinite(value);
}

// Returns an error text, or an empty string.
std::string scaling_error(const RopeConfig& rope) {
  const bool stretched =
      rope.scaling == Scaling::kLinear || rope.scaling == Scaling::kLlama3 || rope.scaling == Scaling::kYarn;
  if (stretched && !(rope.factor >= 1 && rope.factor <= 1e6)) return "the factor must lie in 1 to 1e6";
  const bool from_original = rope.scaling == Scaling::kLlama3 || rope.scaling == Scaling::kYarn;
  if (from_original && rope.original_context == 0) return "the original context length is missing";
  if (rope.scaling == Scaling::kLlama3 &&
      !(positive(rope.low_freq_factor) && positive(rope.high_freq_factor) &&
        rope.low_freq_factor < rope.high_freq_factor)) {
    return "0 < low_freq_factor < high_freq_factor must hold";
  }
  if (rope.scaling == Scaling::kYarn &&
      !(positive(rope.beta_fast) && positive(rope.beta_slow) && rope.beta_slow < rope.beta_fast)) {
    return "0 < beta_slow < beta_fast must hold";
  }
  if (!positive(rope.attention_factor)) return "the attention factor must be positive";
  if (rope.scaling == Scaling::kTable) {
    if (rope.table.size() != rope.dimension / 2) {
      return std::to_string(rope.table.size()) + " rope factors for " + std::to_string(rope.dimension / 2) +
             " frequencies";
    }
    if (!std::all_of(rope.table.begin(), rope.table.end(), positive)) return "a rope factor is not positive";
  }
  return "";
}

}  // namespace

bool RopeConfig::operator==(const RopeConfig& other) const {
  const auto result = [](const RopeConfig& rope) {
    return std::tie(rope.dimension, rope.mrope_section, rope.mrope_interleaved, rope.inv_freq,
                    rope.attention_factor);
  };
  return result(*this) == result(other);
}

void finish_rope(RopeConfig& rope, std::size_t head_dim,
                 const std::function<void(RopeField, const std::string& reason)>& fail) {
  if (rope.dimension == 0 || rope.dimension % 2 != 0 || rope.dimension > head_dim) {
    fail(RopeField::kDimension, std::to_string(rope.dimension) + " rotated elements do not suit heads of " +
                                    std::to_string(head_dim));
  }
  if (!(rope.theta > 1) || !std::isfinite(rope.theta)) fail(RopeField::kTheta, "must be greater than 1");
  if (const std::string error = scaling_error(rope); !error.empty()) fail(RopeField::kScaling, error);
  if (!rope.mrope_section.empty()) {
    const std::size_t pairs =
        std::accumulate(rope.mrope_section.begin(), rope.mrope_section.end(), std::size_t{0});
    if (rope.mrope_section.size() != 3 || pairs != rope.dimension / 2) {
      fail(RopeField::kSection, "must be three numbers that add up to " + std::to_string(rope.dimension / 2));
    }
  }
  rope.inv_freq = make_inv_freq(rope);
}

std::vector<std::size_t> default_mrope_section(std::size_t dimension) {
  if (dimension != 64) return {};
  return {11, 11, 10};
}

double yarn_attention_factor(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

}  // namespace reprise::models
