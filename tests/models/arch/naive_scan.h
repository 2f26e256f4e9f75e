#pragma once
// Reference implementation of Mamba-1's mixer (models/parts/selective_scan.h) in double precision.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/parts/selective_scan.h"

namespace reprise::models::test {

class NaiveScan {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  NaiveScan(const SelectiveScanSpec& spec, const std::map<std::string, std::vector<float>>& weights)
      : spec_(spec), weights_(weights) {}

  Rows run(const Rows& x) const {
    Rows inputs;
    Rows out;
    Rows h(spec_.inner, Row(spec_.state_size));
    for (const Row& row : x) {
      const Row projected = product("in_proj", row);
      const Row z(projected.begin() + static_cast<std::ptrdiff_t>(spec_.inner), projected.end());
      inputs.emplace_back(projected.begin(), projected.begin() + static_cast<std::ptrdiff_t>(spec_.inner));
      out.push_back(product("out_proj", scan(convolved(inputs), z, h)));
    }
    return out;
  }

 private:
  const std::vector<float>& at(const std::string& name) const { return weights_.at(spec_.name + "." + name); }

  Row product(const std::string& name, const Row& x) const {
    const std::vector<float>& w = at(name + ".weight");
    Row y(w.size() / x.size());
    const auto bias = weights_.find(spec_.name + "." + name + ".bias");
    for (std::size_t n = 0; n < y.size(); ++n) {
      if (bias != weights_.end()) y[n] = bias->second[n];
      for (std::size_t k = 0; k < x.size(); ++k) y[n] += static_cast<double>(w[n * x.size() + k]) * x[k];
    }
    return y;
  }

  static double silu(double x) { return x / (1 + std::exp(-x)); }

  // Convolution output for the last row of `inputs`.
  Row convolved(const Rows& inputs) const {
    const std::size_t taps = spec_.conv_kernel;
    Row y(spec_.inner);
    for (std::size_t c = 0; c < spec_.inner; ++c) {
      if (spec_.conv_bias) y[c] = at("conv1d.bias")[c];
      for (std::size_t j = 0; j < taps && j < inputs.size(); ++j) {
        y[c] += static_cast<double>(at("conv1d.weight")[c * taps + taps - 1 - j]) *
                inputs[inputs.size() - 1 - j][c];
      }
      y[c] = silu(y[c]);
    }
    return y;
  }

  Row normed(const char* name, Row x) const {
    if (spec_.norms == ScanNorms::kNone) return x;
    double squares = 0;
    for (const double value : x) squares += value * value;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] /= std::sqrt(squares / static_cast<double>(x.size()) + spec_.norm.eps);
      if (spec_.norms == ScanNorms::kWeighted) x[i] *= at(name + std::string("_layernorm.weight"))[i];
    }
    return x;
  }

  Row scan(const Row& x, const Row& z, Rows& h) const {
    const Row all = product("x_proj", x);
    const auto part = [&](std::size_t first, std::size_t count) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      return Row(begin, begin + static_cast<std::ptrdiff_t>(count));
    };
    const std::size_t size = spec_.state_size;
    const Row dt = product("dt_proj", normed("dt", part(0, spec_.step_rank)));
    const Row b = normed("b", part(spec_.step_rank, size));
    const Row c = normed("c", part(spec_.step_rank + size, size));
    Row y(spec_.inner);
    for (std::size_t i = 0; i < spec_.inner; ++i) {
      const double step = std::log1p(std::exp(dt[i]));
      y[i] = at("D")[i] * x[i];
      for (std::size_t n = 0; n < size; ++n) {
        const double decay = std::exp(static_cast<double>(at("A_log")[i * size + n]));
        h[i][n] = std::exp(-decay * step) * h[i][n] + step * b[n] * x[i];
        y[i] += h[i][n] * c[n];
      }
      y[i] *= silu(z[i]);
    }
    return y;
  }

  const SelectiveScanSpec& spec_;
  const std::map<std::string, std::vector<float>>& weights_;
};

}  // namespace reprise::models::test
