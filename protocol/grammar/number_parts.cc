#include "protocol/grammar/number_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace reprise::protocol::grammar {
namespace {

std::vector<CharSet> digit_alphabet() {
  std::vector<CharSet> sets;
  for (std::uint32_t c = '0'; c <= '9'; ++c) sets.push_back({{c, c}});
  sets.push_back({{'-', '-'}});
  sets.push_back({{'.', '.'}});
  return sets;
}

enum Order : std::uint32_t { kLess = 1, kEqual = 2, kGreater = 3 };

// State: {negative, whole digits so far, order of the digits so far, 0 before the point or 1 + fraction digits}.
class ComparePart : public CharPart {
 public:
  explicit ComparePart(Decimal bound) : bound_(std::move(bound)) {
    zero_ = bound_.digits == "0" && bound_.fraction.empty();
  }

  std::vector<CharSet> alphabet() const override { return digit_alphabet(); }
  State start() const override { return {0, 0, kEqual, 0}; }

  State step(const State& state, std::uint32_t c) const override {
    if (state.empty()) return state;
    State next = state;
    if (c == '-') {
      next[0] = 1;
    } else if (c == '.') {
      next[3] = 1;
    } else if (c < '0' || c > '9') {
      return {};
    } else if (state[3] == 0) {
      const std::size_t place = state[1];
      if (place < bound_.digits.size()) note(next, c, bound_.digits[place]);
      next[1] = std::min(static_cast<std::uint32_t>(place + 1),
                         static_cast<std::uint32_t>(bound_.digits.size() + 1));
    } else {
      const std::size_t place = state[3] - 1;
      note(next, c, place < bound_.fraction.size() ? bound_.fraction[place] : '0');
      next[3] = std::min(static_cast<std::uint32_t>(place + 2),
                         static_cast<std::uint32_t>(bound_.fraction.size() + 1));
    }
    return next;
  }

  Verdict verdict(const State& state) const override {
    if (state.empty() || state[1] == 0) return 0;
    std::uint32_t order = state[2];
    if (state[1] != bound_.digits.size()) {
      order = state[1] < bound_.digits.size() ? kLess : kGreater;
    } else if (order == kEqual && state[3] < bound_.fraction.size() + 1 && !bound_.fraction.empty()) {
      order = kLess;  // the fraction that is missing is above zero
    }
    const bool negative = state[0] != 0;
    if (zero_) return order == kEqual ? kEqual : negative ? kLess : kGreater;
    if (negative != bound_.negative) return negative ? kLess : kGreater;
    return negative ? 4 - order : order;
  }

 private:
  static void note(State& state, std::uint32_t c, char bound) {
    if (state[2] != kEqual) return;
    const auto digit = static_cast<std::uint32_t>(bound);
    state[2] = c < digit ? kLess : c > digit ? kGreater : kEqual;
  }

  const Decimal bound_;
  bool zero_ = false;
};

// State: {remainder of the digits so far, 0 before the point or 1 + fraction digits}.
class MultiplePart : public CharPart {
 public:
  MultiplePart(std::uint32_t divisor, std::uint32_t places) : divisor_(divisor), places_(places) {}

  std::vector<CharSet> alphabet() const override { return digit_alphabet(); }
  State start() const override { return {0, 0}; }

  State step(const State& state, std::uint32_t c) const override {
    if (state.empty() || c == '-') return state;
    if (c == '.') return {state[0], 1};
    if (c < '0' || c > '9') return {};
    if (state[1] == places_ + 1) return c == '0' ? state : State{};
    return {static_cast<std::uint32_t>((std::uint64_t{state[0]} * 10 + (c - '0')) % divisor_),
            state[1] == 0 ? 0 : state[1] + 1};
  }

  Verdict verdict(const State& state) const override {
    if (state.empty()) return 0;
    std::uint64_t rest = state[0];
    for (std::uint32_t place = state[1] == 0 ? 0 : state[1] - 1; place < places_; ++place)
      rest = rest * 10 % divisor_;
    return rest == 0;
  }

 private:
  const std::uint32_t divisor_;
  const std::uint32_t places_;
};

}  // namespace

std::optional<Decimal> Decimal::of(const Json& number) {
  Decimal decimal;
  std::string text;
  if (number.is_int()) {
    text = std::to_string(number.as_int());
  } else {
    const double value = number.as_double();
    if (!std::isfinite(value) || std::abs(value) > 1e40) return std::nullopt;
    // The shortest digits that give the same value, moved to where they belong.
    char buffer[64];
    for (int precision = 0; precision <= 17; ++precision) {
      std::snprintf(buffer, sizeof buffer, "%.*e", precision, value);
      if (std::strtod(buffer, nullptr) == value) break;
    }
    const std::string scientific = buffer;
    const std::size_t e = scientific.find('e');
    std::string digits;
    for (const char c : scientific.substr(0, e)) {
      if (c >= '0' && c <= '9') digits += c;
    }
    const int exponent = std::atoi(scientific.c_str() + e + 1);
    if (exponent < -60) return std::nullopt;
    if (value < 0) text.push_back('-');
    if (exponent < 0) {
      text.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
    } else {
      const auto whole = static_cast<std::size_t>(exponent + 1);
      if (digits.size() < whole) digits.append(whole - digits.size(), '0');
      text.append(digits, 0, whole).append(".").append(digits, whole);
    }
  }
  decimal.negative = text.starts_with('-');
  if (decimal.negative) text.erase(0, 1);
  const std::size_t point = std::min(text.find('.'), text.size());
  decimal.digits = text.substr(0, point);
  decimal.fraction = point < text.size() ? text.substr(point + 1) : "";
  while (decimal.digits.size() > 1 && decimal.digits.front() == '0') decimal.digits.erase(0, 1);
  while (!decimal.fraction.empty() && decimal.fraction.back() == '0') decimal.fraction.pop_back();
  return decimal;
}

std::unique_ptr<CharPart> compared_to(const Decimal& bound) {
  return std::make_unique<ComparePart>(bound);
}

std::unique_ptr<CharPart> multiple_of(const Decimal& divisor) {
  std::string digits = divisor.digits + divisor.fraction;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) throw GrammarError("multipleOf: must be above 0");
  if (digits.size() > 5) throw GrammarError("multipleOf: has more digits than are supported");
  return std::make_unique<MultiplePart>(static_cast<std::uint32_t>(std::stoul(digits)),
                                        static_cast<std::uint32_t>(divisor.fraction.size()));
}

}  // namespace reprise::protocol::grammar
