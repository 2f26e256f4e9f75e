#pragma once
// Reference implementations of Kimi Delta Attention (models/parts/kda.h) and latent attention
// (models/parts/mla.h) in double precision; keys and values of all heads are expanded.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/parts/kda.h"
#include "models/parts/mla.h"

namespace reprise::models::test {

/// The weights whose names begin with a part's name.
class NaiveWeights {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  NaiveWeights(std::string name, const std::map<std::string, std::vector<float>>& weights)
      : name_(std::move(name)), weights_(weights) {}

  const std::vector<float>& at(const std::string& name) const { return weights_.at(name_ + "." + name); }

  Row product(const std::string& name, const Row& x) const {
    const std::vector<float>& w = at(name + ".weight");
    Row y(w.size() / x.size());
    const auto bias = weights_.find(name_ + "." + name + ".bias");
    for (std::size_t n = 0; n < y.size(); ++n) {
      if (bias != weights_.end()) y[n] = static_cast<double>(bias->second[n]);
      for (std::size_t k = 0; k < x.size(); ++k) y[n] += static_cast<double>(w[n * x.size() + k]) * x[k];
    }
    return y;
  }

  Row norm(const std::string& name, Row x, double eps) const {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= scale * static_cast<double>(at(name + ".weight")[i]);
    return x;
  }

  static Row part(const Row& row, std::size_t first, std::size_t count) {
    const auto begin = row.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  std::string name_;
  const std::map<std::string, std::vector<float>>& weights_;
};

inline NaiveWeights::Rows naive_kda(const KdaSpec& spec,
                                    const std::map<std::string, std::vector<float>>& weights,
                                    const NaiveWeights::Rows& x) {
  using Row = NaiveWeights::Row;
  using Rows = NaiveWeights::Rows;
  const NaiveWeights w(spec.name, weights);
  const auto sigmoid = [](double value) { return 1 / (1 + std::exp(-value)); };
  const std::size_t size = spec.head_dim;
  std::map<std::string, Rows> inputs;
  std::vector<Rows> states(spec.heads, Rows(size, Row(size)));
  const auto convolved = [&](const std::string& which, const Row& row) {
    Rows& all = inputs[which];
    all.push_back(w.product(which + "_proj", row));
    const std::vector<float>& taps = w.at(which + "_conv1d.weight");
    Row y(spec.size());
    for (std::size_t c = 0; c < y.size(); ++c) {
      for (std::size_t j = 0; j < spec.conv_kernel && j < all.size(); ++j) {
        y[c] += static_cast<double>(taps[(c + 1) * spec.conv_kernel - 1 - j]) * all[all.size() - 1 - j][c];
      }
      y[c] *= sigmoid(y[c]);
    }
    return y;
  };
  const auto unit = [](Row row) {
    double squares = 1e-6;
    for (const double value : row) squares += value * value;
    for (double& value : row) value /= std::sqrt(squares);
    return row;
  };
  Rows out;
  for (const Row& row : x) {
    const Row q = convolved("q", row);
    const Row k = convolved("k", row);
    const Row v = convolved("v", row);
    const Row f = w.product("f_b_proj", w.product("f_a_proj", row));
    const Row gate = w.product("g_b_proj", w.product("g_a_proj", row));
    const Row beta = w.product("b_proj", row);
    Row mixed;
    for (std::size_t head = 0; head < spec.heads; ++head) {
      Rows& s = states[head];
      const std::size_t first = head * size;
      const Row query = unit(NaiveWeights::part(q, first, size));
      const Row key = unit(NaiveWeights::part(k, first, size));
      const double rate = std::exp(static_cast<double>(w.at("A_log")[head]));
      Row change = NaiveWeights::part(v, first, size);
      for (std::size_t i = 0; i < size; ++i) {
        const double step =
            std::log1p(std::exp(f[first + i] + static_cast<double>(w.at("dt_bias")[first + i])));
        for (std::size_t j = 0; j < size; ++j) {
          s[i][j] *= std::exp(-rate * step);
          change[j] -= key[i] * s[i][j];
        }
      }
      Row o(size);
      for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j < size; ++j) {
          s[i][j] += key[i] * sigmoid(beta[head]) * change[j];
          o[j] += query[i] * s[i][j] / std::sqrt(static_cast<double>(size));
        }
      }
      o = w.norm("o_norm", o, static_cast<double>(spec.norm.eps));
      for (std::size_t j = 0; j < size; ++j) mixed.push_back(o[j] * sigmoid(gate[first + j]));
    }
    out.push_back(w.product("o_proj", mixed));
  }
  return out;
}

inline NaiveWeights::Rows naive_mla(const MlaSpec& spec,
                                    const std::map<std::string, std::vector<float>>& weights,
                                    const NaiveWeights::Rows& x) {
  using Row = NaiveWeights::Row;
  using Rows = NaiveWeights::Rows;
  const NaiveWeights w(spec.name, weights);
  const auto eps = static_cast<double>(spec.norm.eps);
  const auto turned = [&](Row row, std::size_t position) {
    if (!spec.rope) return row;
    const std::size_t half = spec.rotary_dim / 2;
    Row out(row.size());
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * static_cast<double>(spec.rope->inv_freq[i]);
      const auto factor = static_cast<double>(spec.rope->attention_factor);
      const double a = factor * row[spec.rope_of_neighbors ? 2 * i : i];
      const double b = factor * row[spec.rope_of_neighbors ? 2 * i + 1 : i + half];
      out[i] = a * std::cos(angle) - b * std::sin(angle);
      out[i + half] = b * std::cos(angle) + a * std::sin(angle);
    }
    return out;
  };
  const std::size_t both = spec.plain_dim + spec.value_dim;
  std::vector<Rows> keys(spec.heads);
  std::vector<Rows> values(spec.heads);
  Rows out;
  for (std::size_t t = 0; t < x.size(); ++t) {
    const Row q = spec.q_rank == 0
                      ? w.product("q_proj", x[t])
                      : w.product("q_b_proj", w.norm("q_a_layernorm", w.product("q_a_proj", x[t]), eps));
    const Row made = w.product("kv_a_proj_with_mqa", x[t]);
    Row latent = w.norm("kv_a_layernorm", NaiveWeights::part(made, 0, spec.rank), eps);
    for (double& value : latent) value *= static_cast<double>(spec.latent_scale);
    const Row shared = turned(NaiveWeights::part(made, spec.rank, spec.rotary_dim), t);
    const Row expanded = w.product("kv_b_proj", latent);
    Row mixed(spec.heads * spec.value_dim);
    for (std::size_t head = 0; head < spec.heads; ++head) {
      Row key = NaiveWeights::part(expanded, head * both, spec.plain_dim);
      key.insert(key.end(), shared.begin(), shared.end());
      keys[head].push_back(std::move(key));
      values[head].push_back(NaiveWeights::part(expanded, head * both + spec.plain_dim, spec.value_dim));
      Row query = NaiveWeights::part(q, head * spec.key_dim(), spec.plain_dim);
      const Row end =
          turned(NaiveWeights::part(q, head * spec.key_dim() + spec.plain_dim, spec.rotary_dim), t);
      query.insert(query.end(), end.begin(), end.end());
      Row shares(t + 1);
      double sum = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (std::size_t i = 0; i < query.size(); ++i) score += query[i] * keys[head][s][i];
        sum += shares[s] = std::exp(score * static_cast<double>(spec.score_scale));
      }
      for (std::size_t s = 0; s <= t; ++s) {
        for (std::size_t i = 0; i < spec.value_dim; ++i) {
          mixed[head * spec.value_dim + i] += shares[s] / sum * values[head][s][i];
        }
      }
    }
    out.push_back(w.product("o_proj", mixed));
  }
  return out;
}

}  // namespace reprise::models::test
