#pragma once
// Rotary position embedding (RoPE): configuration from the model files and the resulting frequencies.
//
// Pair i of a head, elements i and i + dimension / 2, is rotated by position * inv_freq[i]; cosine and sine
// are multiplied by attention_factor. All kinds of context extension reduce to these two, so kernels need no
// others.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace reprise::models {

struct RopeConfig {
  enum class Scaling : std::uint8_t {
    kNone,
    kLinear,  // all frequencies divided by `factor`
    kLlama3,  // low frequencies divided by `factor`, high ones kept, a ramp between
    kYarn,    // as kLlama3 with another ramp, and an attention factor
    kTable,   // each frequency divided by its entry of `table`
  };

  double theta = 10000;
  std::size_t dimension = 0;               // leading elements of a head that are rotated; even
  std::vector<std::size_t> mrope_section;  // pairs per axis (time, height, width); empty: one axis
  bool mrope_interleaved = false;          // axes alternate among the pairs instead of being contiguous

  // Input of finish_rope(); already applied in the two results below.
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  std::size_t original_context = 0;  // kLlama3, kYarn
  double low_freq_factor = 1;        // kLlama3
  double high_freq_factor = 4;       // kLlama3
  double beta_fast = 32;             // kYarn
  double beta_slow = 1;              // kYarn
  bool truncate = true;              // kYarn: the ramp begins and ends at whole pairs
  std::vector<float> table;          // kTable

  std::vector<float> inv_freq;  // [dimension / 2] radians per position
  float attention_factor = 1;

  /// Compares the resulting rotations, not how the frequencies were derived.
  bool operator==(const RopeConfig& other) const;
};

/// Cosines and sines for the rows of a step, in the memory of the device.
struct RopeTable {
  float* cosine;  // [rows, dimension / 2]
  float* sine;    // [rows, dimension / 2]
};

enum class RopeField : std::uint8_t { kTheta, kDimension, kSection, kScaling };

/// Validates the fields and computes inv_freq. On an error calls `fail` with the field and the reason; it
/// must throw.
void finish_rope(RopeConfig& rope, std::size_t head_dim,
                 const std::function<void(RopeField, const std::string& reason)>& fail);

/// Returns Qwen3.5's section, for model files without one, or empty (one axis) if it does not fit
/// `dimension`; text alone never needs it.
std::vector<std::size_t> default_mrope_section(std::size_t dimension);

/// Returns the attention factor that YaRN recommends for a context extended by `factor`.
double yarn_attention_factor(double factor, double mscale = 1);

}  // namespace reprise::models
