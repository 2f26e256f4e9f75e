#pragma once
// Reference implementations of RG-LRU and RWKV-7's parts (models/parts/rg_lru.h, rwkv.h) in double precision.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/parts/rg_lru.h"
#include "models/parts/rwkv.h"

namespace reprise::models::test {

class NaiveRecurrences {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  /// `name`: prefix of the part's tensors.
  NaiveRecurrences(std::string name, const std::map<std::string, std::vector<float>>& weights)
      : name_(std::move(name)), weights_(weights) {}

  Rows run(const RgLruSpec& spec, const Rows& x) const {
    const std::size_t size = spec.head_width();
    Rows inputs;
    Rows out;
    Row h(spec.width);
    for (const Row& row : x) {
      inputs.push_back(product("linear_x", row));
      Row u(spec.width);
      for (std::size_t c = 0; c < spec.width; ++c) {
        u[c] = at("conv_1d.bias")[c];
        for (std::size_t j = 0; j < spec.conv_kernel && j < inputs.size(); ++j) {
          const float tap = at("conv_1d.weight")[(c + 1) * spec.conv_kernel - 1 - j];
          u[c] += tap * inputs[inputs.size() - 1 - j][c];
        }
      }
      const auto gate = [&](const std::string& which, std::size_t c) {
        double sum = at("rg_lru." + which + "_gate_bias")[c];
        const std::size_t first = c / size * size;
        for (std::size_t i = 0; i < size; ++i) {
          sum += u[first + i] * at("rg_lru." + which + "_gate_weight")[(first + i) * size + c % size];
        }
        return sigmoid(sum);
      };
      const Row branch = product("linear_y", row);
      Row y(spec.width);
      for (std::size_t c = 0; c < spec.width; ++c) {
        const double log_a =
            -8 * gate("recurrent", c) * std::log1p(std::exp(at("rg_lru.recurrent_param")[c]));
        const double left = out.empty() ? 1 : std::sqrt(1 - std::exp(2 * log_a));
        h[c] = std::exp(log_a) * h[c] + u[c] * gate("input", c) * left;
        const double b = branch[c];
        y[c] = h[c] * b / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (b + 0.044715 * b * b * b)));
      }
      out.push_back(product("linear_out", y));
    }
    return out;
  }

  /// `first_values` is written by the first time mix of a model and read by the others.
  Rows run(const TimeMixSpec& spec, const Rows& x, Rows& first_values) const {
    const std::size_t size = spec.head_dim;
    Rows out;
    std::vector<Rows> state(spec.heads(), Rows(size, Row(size)));  // [heads, keys, values]
    if (spec.is_first) first_values.clear();
    for (std::size_t t = 0; t < x.size(); ++t) {
      const auto mixed = [&](std::size_t which) { return shifted(x, t, which * spec.hidden); };
      const Row r = product("r_proj", mixed(0));
      Row k = product("k_proj", mixed(2));
      Row v = product("v_proj", mixed(3));
      const Row w = pair("w", mixed(1), [](double value) { return std::tanh(value); });
      const Row a = pair("a", mixed(4), [](double value) { return value; });
      const Row g = pair("g", mixed(5), sigmoid);
      if (spec.is_first) {
        first_values.push_back(v);
      } else {
        const Row mix = pair("v", mixed(3), [](double value) { return value; });
        for (std::size_t i = 0; i < v.size(); ++i) v[i] += (first_values[t][i] - v[i]) * sigmoid(mix[i]);
      }
      Row y(spec.hidden);
      for (std::size_t head = 0; head < spec.heads(); ++head) {
        const std::size_t first = head * size;
        Row key(size);
        double length = 0;
        for (std::size_t i = 0; i < size; ++i) {
          key[i] = k[first + i] * at("k_k")[first + i];
          length += key[i] * key[i];
          k[first + i] *= 1 + (sigmoid(a[first + i]) - 1) * at("k_a")[first + i];
        }
        for (double& value : key) value /= std::sqrt(length);
        Rows& s = state[head];
        double bonus = 0;
        for (std::size_t i = 0; i < size; ++i) bonus += r[first + i] * k[first + i] * at("r_k")[first + i];
        Row o(size);
        for (std::size_t j = 0; j < size; ++j) {
          double recalled = 0;
          for (std::size_t i = 0; i < size; ++i) recalled -= key[i] * s[i][j];
          for (std::size_t i = 0; i < size; ++i) {
            const double decay = std::exp(-std::exp(-0.5) * sigmoid(w[first + i]));
            s[i][j] =
                s[i][j] * decay + key[i] * sigmoid(a[first + i]) * recalled + k[first + i] * v[first + j];
            o[j] += r[first + i] * s[i][j];
          }
        }
        double mean = 0;
        double variance = 0;
        for (const double value : o) mean += value / static_cast<double>(size);
        for (const double value : o) variance += (value - mean) * (value - mean) / static_cast<double>(size);
        for (std::size_t j = 0; j < size; ++j) {
          const double normed = (o[j] - mean) / std::sqrt(variance + 64e-5) * at("g_norm.weight")[first + j] +
                                at("g_norm.bias")[first + j];
          y[first + j] = (normed + bonus * v[first + j]) * g[first + j];
        }
      }
      out.push_back(product("o_proj", y));
    }
    return out;
  }

  Rows run(const ChannelMixSpec& /*spec*/, const Rows& x) const {
    Rows out;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row inner = product("key", shifted(x, t, 0));
      for (double& value : inner) value = value > 0 ? value * value : 0;
      out.push_back(product("value", inner));
    }
    return out;
  }

 private:
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  const std::vector<float>& at(const std::string& name) const { return weights_.at(name_ + "." + name); }

  Row product(const std::string& name, const Row& x) const {
    const std::vector<float>& w = at(name + ".weight");
    Row y(w.size() / x.size());
    const auto bias = weights_.find(name_ + "." + name + ".bias");
    for (std::size_t n = 0; n < y.size(); ++n) {
      if (bias != weights_.end()) y[n] = bias->second[n];
      for (std::size_t k = 0; k < x.size(); ++k) y[n] += static_cast<double>(w[n * x.size() + k]) * x[k];
    }
    return y;
  }

  template <class Between>
  Row pair(const std::string& letter, const Row& x, Between between) const {
    Row inner = product(letter + "1", x);
    for (double& value : inner) value = between(value);
    return product(letter + "2", inner);
  }

  Row shifted(const Rows& x, std::size_t t, std::size_t first) const {
    Row out = x[t];
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] += ((t == 0 ? 0 : x[t - 1][i]) - x[t][i]) * at("mix")[first + i];
    }
    return out;
  }

  std::string name_;
  const std::map<std::string, std::vector<float>>& weights_;
};

}  // namespace reprise::models::test
