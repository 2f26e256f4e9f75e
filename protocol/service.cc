#include "protocol/service.h"

#include <algorithm>

namespace reprise::protocol {

std::string_view name_of(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

std::string_view name_of(ReasoningEnd end) {
  switch (end) {
    case ReasoningEnd::kModel:
      return "model";
    case ReasoningEnd::kBudget:
      return "budget";
    case ReasoningEnd::kClient:
      return "client";
  }
  return "?";
}

std::string_view name_of(ModelCard::State state) {
  switch (state) {
    case ModelCard::State::kLoading:
      return "loading";
    case ModelCard::State::kReady:
      return "ready";
    case ModelCard::State::kFailed:
      return "failed";
  }
  return "?";
}

namespace {

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos || name.size() + 1 < pattern.size()) return false;
  const std::string_view end = pattern.substr(star + 1);
  if (!name.starts_with(pattern.substr(0, star)) || !name.ends_with(end)) return false;
  return name.substr(star, name.size() - star - end.size()).find(':') == std::string_view::npos;
}

}  // namespace

bool ModelCard::answers_to(std::string_view name) const {
  return is_called(name) || std::any_of(aliases.begin(), aliases.end(),
                                        [&](const std::string& one) { return matches(one, name); });
}

bool ModelCard::is_called(std::string_view name) const {
  return id == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

const ModelCard* card_named(const std::vector<ModelCard>& cards, std::string_view name) {
  const auto found = find_named(cards.begin(), cards.end(), name,
                                [](const ModelCard& card) -> const ModelCard& { return card; });
  return found == cards.end() ? nullptr : &*found;
}

std::string nearest_model(const std::vector<ModelCard>& cards, const std::string& name) {
  const auto is_model = [](const ModelCard& card) { return card.parent.empty(); };
  const auto is_named = [&](const ModelCard& card) { return card.answers_to(name); };
  if (std::count_if(cards.begin(), cards.end(), is_model) != 1) return name;
  return std::any_of(cards.begin(), cards.end(), is_named) ? name : std::string();
}

std::string no_such_model(std::string_view name, const std::vector<std::string>& served) {
  constexpr std::size_t kMaxNames = 16;
  std::string text = "there is no model '" + std::string(name) + "'";
  for (std::size_t i = 0; i < std::min(served.size(), kMaxNames); ++i) {
    text += (i == 0 ? "; served: " : ", ") + served[i];
  }
  if (served.size() > kMaxNames) text += " and " + std::to_string(served.size() - kMaxNames) + " more";
  return text;
}

}  // namespace reprise::protocol
