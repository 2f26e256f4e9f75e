#pragma once
// Reference implementation of layers from their descriptions, in double precision: a whole sequence at once,
// without state or kernels.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/arch/config.h"
#include "tests/models/arch/naive_latent.h"
#include "tests/models/arch/naive_recurrences.h"
#include "tests/models/arch/naive_scan.h"

namespace reprise::models::test {

using Row = std::vector<double>;
using Rows = std::vector<Row>;                              // [tokens]
using Weights = std::map<std::string, std::vector<float>>;  // by canonical name

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
inline double silu(double x) {
  return x * sigmoid(x);
}
inline Row operator+(Row a, const Row& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
inline Row times(double factor, Row row) {
  for (double& value : row) value *= factor;
  return row;
}
inline Row slice(const Row& row, std::size_t first, std::size_t count) {
  const auto begin = row.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

class NaiveModel {
 public:
  NaiveModel(const ModelConfig& config, const Weights& weights) : config_(config), weights_(weights) {}

  /// Returns the logits after each token.
  Rows run(const std::vector<std::int32_t>& tokens) const {
    Rows x;
    for (const std::int32_t token : tokens) {
      const std::vector<float>& table = weight(config_.embedding);
      const auto row = table.begin() + token * static_cast<std::ptrdiff_t>(config_.hidden);
      x.emplace_back(row, row + static_cast<std::ptrdiff_t>(config_.hidden));
      for (double& value : x.back()) value *= config_.embedding_multiplier;
      if (config_.embedding_norm) x.back() = norm(*config_.embedding_norm, x.back());
    }
    for (const LayerSpec& layer : config_.layers) {
      Rows late(x.size(), Row(config_.hidden));
      for (const ResidualSpec& step : layer.steps) add_step(step, x, late);
      for (std::size_t t = 0; t < x.size(); ++t) x[t] = x[t] + late[t];
    }
    for (Row& row : x) {
      row = product(config_.head, norm(config_.final_norm, row));
      for (double& value : row) {
        value *= config_.logit_multiplier;
        if (config_.logit_cap) value = *config_.logit_cap * std::tanh(value / *config_.logit_cap);
      }
    }
    return x;
  }

  Rows run_part(const PartSpec& part, const Rows& x) const {
    return std::visit([&](const auto& one) { return apply(one, x); }, part);
  }

 private:
  const std::vector<float>& at(const std::string& name) const { return weights_.at(name); }
  const std::vector<float>& weight(const std::string& name) const { return at(name + ".weight"); }

  Row product(const std::string& name, const Row& x) const {
    const std::vector<float>& w = weight(name);
    Row y(w.size() / x.size());
    const auto bias = weights_.find(name + ".bias");
    for (std::size_t n = 0; n < y.size(); ++n) {
      if (bias != weights_.end()) y[n] = bias->second[n];
      for (std::size_t k = 0; k < x.size(); ++k) y[n] += static_cast<double>(w[n * x.size() + k]) * x[k];
    }
    return y;
  }

  Row norm(const NormSpec& spec, Row x) const {
    double mean = 0;
    for (const double value : x) mean += value / static_cast<double>(x.size());
    for (double& value : x) value -= spec.kind.centered ? mean : 0;
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + spec.kind.eps);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] *= scale * (spec.kind.offset + weight(spec.name)[i]);
      if (spec.kind.centered) x[i] += at(spec.name + ".bias")[i];
    }
    return x;
  }

  void add_step(const ResidualSpec& step, Rows& x, Rows& late) const {
    Rows read = x;
    if (step.norm) {
      for (Row& row : read) row = norm(*step.norm, row);
    }
    Rows sum(x.size(), Row(config_.hidden));
    for (std::size_t i = 0; i < step.parts.size(); ++i) {
      const PartScale scale = step.scales.empty() ? PartScale{} : step.scales[i];
      Rows given = read;
      for (Row& row : given) row = times(scale.in, row);
      const Rows made = std::visit([&](const auto& one) { return apply(one, given); }, step.parts[i]);
      for (std::size_t t = 0; t < x.size(); ++t) sum[t] = sum[t] + times(scale.out, made[t]);
    }
    for (const PartSpec& part : step.late_parts) {
      const Rows made = run_part(part, read);
      for (std::size_t t = 0; t < x.size(); ++t) late[t] = late[t] + made[t];
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      if (step.norm_after) sum[t] = norm(*step.norm_after, sum[t]);
      for (double& value : sum[t]) value *= step.multiplier;
      x[t] = x[t] + sum[t];
    }
  }

  Rows apply(const SwiGluSpec& part, const Rows& x) const {
    Rows out;
    for (const Row& row : x) out.push_back(expert(part.name, row, part.activation, part.gate_multiplier));
    return out;
  }

  static double activate(Activation activation, double x) {
    if (activation == Activation::kSilu) return silu(x);
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }

  Row expert(const std::string& name, const Row& x, Activation activation = Activation::kSilu,
             double gate_multiplier = 1) const {
    Row gate = product(name + ".gate_proj", x);
    const Row up = product(name + ".up_proj", x);
    for (std::size_t i = 0; i < gate.size(); ++i)
      gate[i] = activate(activation, gate_multiplier * gate[i]) * up[i];
    return product(name + ".down_proj", gate);
  }

  Rows apply(const MoeSpec& part, const Rows& x) const {
    Rows out;
    for (const Row& row : x) {
      Row scores = product(part.name + ".gate", row);
      double all = 0;
      for (double& value : scores) {
        all += value = part.scores == gpu::RouterScores::kSoftmax ? std::exp(value) : sigmoid(value);
      }
      Row ranks = scores;
      for (std::size_t e = 0; e < ranks.size(); ++e) {
        if (part.scores == gpu::RouterScores::kSoftmax) ranks[e] = scores[e] /= all;
        if (part.correction_bias) ranks[e] += at(part.name + ".gate.e_score_correction_bias")[e];
      }
      std::vector<std::size_t> order = best_of(ranks, part.groups, part.chosen_groups);
      order.resize(part.chosen);
      double sum_of_chosen = 0;
      for (const std::size_t e : order) sum_of_chosen += scores[e];
      const Row seen = part.latent != 0 ? product(part.name + ".fc1_latent_proj", row) : row;
      Row sum(part.width());
      for (const std::size_t e : order) {
        const bool is_zero = e >= part.experts;
        const Row one = is_zero ? seen : expert_of(part, ".experts." + std::to_string(e), seen);
        const double weight = scores[e] * part.scale / (part.normalized ? sum_of_chosen + part.epsilon : 1.0);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * one[i];
      }
      if (part.latent != 0) sum = product(part.name + ".fc2_latent_proj", sum);
      if (part.has_shared()) {
        const double gate =
            part.shared_gate ? sigmoid(product(part.name + ".shared_expert_gate", row)[0]) : 1.0;
        const Row shared = expert_of(part, ".shared_expert", row);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gate * shared[i];
      }
      out.push_back(std::move(sum));
    }
    return out;
  }

  Row expert_of(const MoeSpec& part, const std::string& name, const Row& x) const {
    return part.has_gates() ? expert(part.name + name, x) : apply(MlpSpec{.name = part.name + name}, {x})[0];
  }

  // Indices of the best groups' elements, largest first. A group's score is the sum of its two largest.
  static std::vector<std::size_t> best_of(const Row& ranks, std::size_t groups, std::size_t chosen_groups) {
    const auto largest = [](const Row& of) {
      std::vector<std::size_t> order(of.size());
      for (std::size_t i = 0; i < of.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return of[a] > of[b]; });
      return order;
    };
    if (chosen_groups == groups) return largest(ranks);
    const std::size_t size = ranks.size() / groups;
    Row group_scores;
    for (std::size_t g = 0; g < groups; ++g) {
      Row own = slice(ranks, g * size, size);
      std::sort(own.begin(), own.end());
      group_scores.push_back(own[size - 1] + own[size - 2]);
    }
    std::vector<bool> kept(groups, false);
    const std::vector<std::size_t> best = largest(group_scores);
    for (std::size_t i = 0; i < chosen_groups; ++i) kept[best[i]] = true;
    std::vector<std::size_t> out;
    for (const std::size_t e : largest(ranks)) {
      if (kept[e / size]) out.push_back(e);
    }
    return out;
  }

  // A head of q or k, with norm and rope applied.
  Row rotated(const AttentionSpec& part, const char* norm_name, Row head, std::size_t position) const {
    if (part.head_norm) head = norm({part.name + norm_name, part.head_dim, *part.head_norm}, head);
    for (std::size_t i = 0; i < part.rope_pairs(); ++i) {
      const double angle = static_cast<double>(position) * part.rope->inv_freq[i];
      const double a = head[i];
      const double b = head[i + part.rope_pairs()];
      head[i] = a * std::cos(angle) - b * std::sin(angle);
      head[i + part.rope_pairs()] = b * std::cos(angle) + a * std::sin(angle);
    }
    return head;
  }

  Rows apply(const AttentionSpec& part, const Rows& x) const {
    const std::size_t size = part.head_dim;
    const double scale = part.score_multiplier / std::sqrt(static_cast<double>(size));
    std::vector<Rows> keys(part.kv_heads);
    std::vector<Rows> values(part.kv_heads);
    Rows out;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row q = product(part.name + ".q_proj", x[t]);
      const Row k = product(part.name + ".k_proj", x[t]);
      const Row v = product(part.name + ".v_proj", x[t]);
      for (std::size_t head = 0; head < part.kv_heads; ++head) {
        keys[head].push_back(rotated(part, ".k_norm", slice(k, head * size, size), t));
        values[head].push_back(slice(v, head * size, size));
      }
      Row mixed(part.q_size());
      for (std::size_t head = 0; head < part.heads; ++head) {
        const std::size_t first = head * (part.output_gate ? 2 * size : size);
        const Row query = rotated(part, ".q_norm", slice(q, first, size), t);
        const std::size_t shared = head / part.group();
        double sum = 0;
        Row weights(t + 1);
        const std::size_t seen = part.window != 0 && t >= part.window ? t + 1 - part.window : 0;
        for (std::size_t s = seen; s <= t; ++s) {
          double score = 0;
          for (std::size_t i = 0; i < size; ++i) score += query[i] * keys[shared][s][i];
          sum += weights[s] = std::exp(score * scale);
        }
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t i = 0; i < size; ++i) {
            mixed[head * size + i] += weights[s] / sum * values[shared][s][i];
          }
        }
        for (std::size_t i = 0; part.output_gate && i < size; ++i) {
          mixed[head * size + i] *= sigmoid(q[first + size + i]);
        }
      }
      out.push_back(product(part.name + ".o_proj", mixed));
    }
    return out;
  }

  Rows apply(const KdaSpec& part, const Rows& x) const { return naive_kda(part, weights_, x); }
  Rows apply(const MlaSpec& part, const Rows& x) const { return naive_mla(part, weights_, x); }
  Rows apply(const RgLruSpec& part, const Rows& x) const {
    return NaiveRecurrences(part.name, weights_).run(part, x);
  }
  Rows apply(const TimeMixSpec& part, const Rows& x) const {
    return NaiveRecurrences(part.name, weights_).run(part, x, first_values_);
  }
  Rows apply(const ChannelMixSpec& part, const Rows& x) const {
    return NaiveRecurrences(part.name, weights_).run(part, x);
  }

  Rows apply(const SelectiveScanSpec& part, const Rows& x) const { return NaiveScan(part, weights_).run(x); }

  Rows apply(const GatedDeltaNetSpec& net, const Rows& x) const {
    const std::size_t taps = net.conv_kernel;
    const std::size_t dk = net.key_head_dim;
    const std::size_t dv = net.value_head_dim;
    const std::vector<float>& conv = weight(net.name + ".conv1d");
    Rows inputs;
    Rows out;
    std::vector<Rows> state(net.value_heads, Rows(dk, Row(dv)));
    for (const Row& row : x) {
      inputs.push_back(product(net.name + ".in_proj_qkv", row));
      Row qkv(net.conv_channels());
      for (std::size_t c = 0; c < qkv.size(); ++c) {
        for (std::size_t j = 0; j < taps && j < inputs.size(); ++j) {
          qkv[c] += static_cast<double>(conv[c * taps + taps - 1 - j]) * inputs[inputs.size() - 1 - j][c];
        }
        qkv[c] = silu(qkv[c]);
      }
      const Row z = product(net.name + ".in_proj_z", row);
      const Row a = product(net.name + ".in_proj_a", row);
      const Row b = product(net.name + ".in_proj_b", row);
      Row mixed;
      for (std::size_t head = 0; head < net.value_heads; ++head) {
        const std::size_t key_head = head / net.group();
        const Row q = unit(slice(qkv, key_head * dk, dk));
        const Row k = unit(slice(qkv, net.key_size() + key_head * dk, dk));
        const Row v = slice(qkv, 2 * net.key_size() + head * dv, dv);
        const double step = std::log1p(std::exp(a[head] + at(net.name + ".dt_bias")[head]));
        const double decay = std::exp(-std::exp(static_cast<double>(at(net.name + ".A_log")[head])) * step);
        const Row o = recur(state[head], q, k, v, decay, sigmoid(b[head]));
        const Row normed = norm({net.name + ".norm", dv, net.norm}, o);
        for (std::size_t i = 0; i < dv; ++i) mixed.push_back(normed[i] * silu(z[head * dv + i]));
      }
      out.push_back(product(net.name + ".out_proj", mixed));
    }
    return out;
  }

  Rows apply(const MlpSpec& part, const Rows& x) const {
    Rows out;
    for (const Row& row : x) {
      Row inner = product(part.name + ".up_proj", row);
      for (double& value : inner) value = value > 0 ? value * value : 0;
      out.push_back(product(part.name + ".down_proj", inner));
    }
    return out;
  }

  Rows apply(const Mamba2Spec& mamba, const Rows& x) const {
    const std::size_t inner = mamba.inner_size();
    const std::size_t shared = mamba.groups * mamba.state_size;
    const std::vector<float>& conv = weight(mamba.name + ".conv1d");
    Rows inputs;
    Rows out;
    std::vector<Rows> state(mamba.heads, Rows(mamba.state_size, Row(mamba.head_dim)));
    for (const Row& row : x) {
      const Row all = product(mamba.name + ".in_proj", row);
      const Row z = times(mamba.multipliers.z, slice(all, 0, inner));
      Row& input = inputs.emplace_back(slice(all, inner, mamba.conv_channels()));
      for (std::size_t c = 0; c < input.size(); ++c) {
        input[c] *= c < inner            ? mamba.multipliers.x
                    : c < inner + shared ? mamba.multipliers.b
                                         : mamba.multipliers.c;
      }
      Row mixed(mamba.conv_channels());
      for (std::size_t c = 0; c < mixed.size(); ++c) {
        if (mamba.conv_bias) mixed[c] = at(mamba.name + ".conv1d.bias")[c];
        for (std::size_t j = 0; j < mamba.conv_kernel && j < inputs.size(); ++j) {
          mixed[c] += static_cast<double>(conv[(c + 1) * mamba.conv_kernel - 1 - j]) *
                      inputs[inputs.size() - 1 - j][c];
        }
        mixed[c] = silu(mixed[c]);
      }
      Row y(inner);
      for (std::size_t h = 0; h < mamba.heads; ++h) {
        const double raw = mamba.multipliers.dt * all[all.size() - mamba.heads + h];
        const double step = std::log1p(std::exp(raw + at(mamba.name + ".dt_bias")[h]));
        const double dt = std::clamp(step, double{mamba.dt_min}, double{mamba.dt_max});
        const double decay = std::exp(-std::exp(double{at(mamba.name + ".A_log")[h]}) * dt);
        const std::size_t b = inner + h / mamba.heads_of_group() * mamba.state_size;
        for (std::size_t p = 0; p < mamba.head_dim; ++p) {
          const double value = mixed[h * mamba.head_dim + p];
          double& sum = y[h * mamba.head_dim + p];
          sum = value * at(mamba.name + ".D")[h];
          for (std::size_t n = 0; n < mamba.state_size; ++n) {
            state[h][n][p] = decay * state[h][n][p] + dt * value * mixed[b + n];
            sum += mixed[b + shared + n] * state[h][n][p];
          }
        }
      }
      out.push_back(product(mamba.name + ".out_proj", gated(mamba, y, z)));
    }
    return out;
  }

  Row gated(const Mamba2Spec& mamba, Row y, const Row& z) const {
    const auto gate = [&] {
      for (std::size_t i = 0; i < y.size(); ++i) y[i] *= silu(z[i]);
    };
    if (mamba.gating != Mamba2Spec::Gating::kNormThenGate) gate();
    for (std::size_t g = 0; mamba.has_norm() && g < mamba.groups; ++g) {
      double squares = 0;
      for (const double value : slice(y, g * mamba.group_size(), mamba.group_size()))
        squares += value * value;
      const double mean = squares / static_cast<double>(mamba.group_size());
      for (std::size_t i = g * mamba.group_size(); i < (g + 1) * mamba.group_size(); ++i) {
        y[i] *= weight(mamba.name + ".norm")[i] / std::sqrt(mean + mamba.norm.eps);
      }
    }
    if (mamba.gating == Mamba2Spec::Gating::kNormThenGate) gate();
    return y;
  }

  static Row unit(Row row) {
    double squares = 1e-6;
    for (const double value : row) squares += value * value;
    for (double& value : row) value /= std::sqrt(squares);
    return row;
  }

  // S = decay S; S += k (beta (v - k^T S)); o = q^T S / sqrt(dk)
  static Row recur(Rows& s, const Row& q, const Row& k, const Row& v, double decay, double beta) {
    Row change = v;
    for (std::size_t i = 0; i < s.size(); ++i) {
      for (std::size_t j = 0; j < v.size(); ++j) {
        s[i][j] *= decay;
        change[j] -= k[i] * s[i][j];
      }
    }
    Row o(v.size());
    for (std::size_t i = 0; i < s.size(); ++i) {
      for (std::size_t j = 0; j < v.size(); ++j) {
        s[i][j] += k[i] * beta * change[j];
        o[j] += q[i] * s[i][j] / std::sqrt(static_cast<double>(s.size()));
      }
    }
    return o;
  }

  const ModelConfig& config_;
  const Weights& weights_;
  mutable Rows first_values_;  // of the last run
};

}  // namespace reprise::models::test
