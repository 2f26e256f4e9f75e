#include "tools/reprise/single_sequence.h"

#include <charconv>

#include "tools/reprise/progress.h"

namespace reprise::tools {

std::vector<TokenId> parse_token_ids(const std::string& text) {
  std::vector<TokenId> ids;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (true) {
    while (p != end && (*p == ' ' || *p == ',' || *p == '\n' || *p == '\t')) ++p;
    if (p == end) break;
    TokenId id = 0;
    const auto [next, error] = std::from_chars(p, end, id);
    if (error != std::errc() ||
        (next != end && *next != ' ' && *next != ',' && *next != '\n' && *next != '\t')) {
      throw UsageError("--tokens: '" + std::string(p, std::find(p, end, ' ')) + "' is no token id");
    }
    ids.push_back(id);
    p = next;
  }
  if (ids.empty()) throw UsageError("--tokens: no token ids given");
  return ids;
}

SingleSequence::SingleSequence(const EngineFlags& flags) : device_(open_device(flags)) {
  {
    ProgressBar bar("packing weights");
    model_ = device_->load(flags.model, compute_options(flags),
                           [&](std::uint64_t done, std::uint64_t total) { bar.show(done, total); });
  }
  ProgressBar bar("reading weights");
  model_->checkpoint().validate([&](std::uint64_t done, std::uint64_t total) { bar.show(done, total); });
  if (flags.adapter.empty()) return;
  adapter_ = 1;
  model_->add_adapter(adapter_, models::Adapter::open(flags.adapter, model_->config()));
}

void SingleSequence::begin(std::size_t tokens) {
  const std::size_t context = model_->config().context_length;
  if (context != 0 && tokens > context) {
    throw UsageError("--max-tokens: with the prompt this is " + std::to_string(tokens) +
                     " tokens; the model's context is " + std::to_string(context));
  }
  sequence_.reset();
  begun_ = false;
  const std::size_t pages = (tokens + gpu::kPageTokens - 1) / gpu::kPageTokens;
  store_ = std::make_unique<gpu::StateStore>(
      model_->state().sizes(), gpu::StateBounds{.pages = pages, .slots = 1, .memory = &device_->memory()});
  sequence_ = store_->open();
  if (!sequence_->reserve(tokens)) throw std::bad_alloc();
}

void SingleSequence::check(std::span<const TokenId> tokens) const {
  for (const TokenId token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= model_->config().vocab) {
      throw UsageError("token id " + std::to_string(token) + " is outside the model's vocabulary of " +
                       std::to_string(model_->config().vocab));
    }
  }
}

}  // namespace reprise::tools
