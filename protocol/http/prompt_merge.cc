#include "protocol/http/prompt_merge.h"

#include <algorithm>

#include "protocol/api/fields.h"
#include "runtime/wait.h"

namespace reprise::protocol {

using runtime::Result;
using runtime::StreamReader;
using runtime::StreamWriter;
using runtime::Task;

PromptMerge::PromptMerge(std::vector<StreamReader<Event>> replies, std::uint32_t n,
                         StreamWriter<Event> merged)
    : replies_(std::move(replies)),
      n_(n),
      merged_(std::move(merged)),
      taken_(replies_.size()),
      accounts_(replies_.size()) {}

void PromptMerge::on_start() {
  for (std::uint32_t i = 0; i < replies_.size(); ++i) launch(read(i));
  launch(write());
}

Task<void> PromptMerge::read(std::uint32_t prompt) {
  bool goes_on = true;
  while (goes_on) {
    auto reading = replies_[prompt].next();
    Result<Event> event = co_await reading;
    goes_on = event.ok() && !std::holds_alternative<Done>(*event);
    arrived_.push_back({prompt, std::move(event)});
    if (arrival_wanted_) arrival_wanted_->cancel();
    auto waiting = taken_[prompt].wait();
    const Result<void> taken = co_await waiting;
  }
}

Task<void> PromptMerge::write() {
  bool goes_on = true;
  while (goes_on) {
    if (arrived_.empty()) {
      arrival_wanted_.emplace();
      auto waiting = merged_.reader_end(arrival_wanted_->token());
      const Result<void> reader_gone = co_await waiting;
      arrival_wanted_.reset();
      goes_on = !reader_gone.ok();
      continue;
    }
    Arrival arrival = std::move(arrived_.front());
    arrived_.pop_front();
    taken_[arrival.prompt].signal();
    if (!arrival.event.ok()) {  // broken off
      merged_.fail(arrival.event.error());
      break;
    }
    std::optional<Event> event = translate(arrival.prompt, std::move(*arrival.event));
    if (!event) continue;
    const bool last = std::holds_alternative<Done>(*event) || std::holds_alternative<Failed>(*event);
    auto writing = merged_.write(std::move(*event));
    const Result<void> written = co_await writing;
    goes_on = written.ok() && !last;
  }
  merged_.close();
  stop();
}

std::optional<Event> PromptMerge::translate(std::uint32_t prompt, Event event) {
  if (std::holds_alternative<Admitted>(event)) {
    if (std::exchange(admitted_, true)) return std::nullopt;
  } else if (auto* started = std::get_if<Started>(&event)) {
    started->prompt_index = prompt;
  } else if (auto* progress = std::get_if<Progress>(&event)) {
    progress->prompt_index = prompt;
  } else if (auto* delta = std::get_if<Delta>(&event)) {
    delta->choice += prompt * n_;
  } else if (auto* finished = std::get_if<Finished>(&event)) {
    finished->choice += prompt * n_;
  } else if (auto* embedded = std::get_if<Embedded>(&event)) {
    embedded->prompt_index = prompt;
  } else if (auto* failed = std::get_if<Failed>(&event)) {
    if (failed->error.field == "prompt") failed->error.field = item_of("prompt", prompt);
  } else if (const auto* done = std::get_if<Done>(&event)) {
    accounts_[prompt] = done->usage;
    const bool all = std::all_of(accounts_.begin(), accounts_.end(), [](const auto& one) { return !!one; });
    if (!all) return std::nullopt;
    return Done{sum_of(accounts_)};
  }
  return event;
}

Usage sum_of(const std::vector<std::optional<Usage>>& accounts) {
  Usage sum = accounts.front().value();
  std::uint32_t most_prefilled = sum.cache.prefilled_tokens;
  for (std::size_t i = 1; i < accounts.size(); ++i) {
    const Usage& one = accounts[i].value();
    sum.prompt_tokens += one.prompt_tokens;
    sum.completion_tokens += one.completion_tokens;
    sum.cache.prompt_tokens += one.cache.prompt_tokens;
    sum.cache.restored_tokens += one.cache.restored_tokens;
    sum.cache.prefilled_tokens += one.cache.prefilled_tokens;
    sum.cache.lost_tokens += one.cache.lost_tokens;
    sum.cache.waited_for_other = sum.cache.waited_for_other || one.cache.waited_for_other;
    if (one.cache.prefilled_tokens > most_prefilled) {
      most_prefilled = one.cache.prefilled_tokens;
      sum.cache.reason = one.cache.reason;
      sum.cache.known_tokens = one.cache.known_tokens;
      sum.cache.behind_tokens = one.cache.behind_tokens;
      sum.cache.origin = one.cache.origin;
      sum.cache.tier = one.cache.tier;
      sum.miss_text = one.miss_text;
    }
    if (sum.reasoning_ended_by == ReasoningEnd::kModel) sum.reasoning_ended_by = one.reasoning_ended_by;
    sum.recognized_calls += one.recognized_calls;
    if (one.kv && !sum.kv) sum.kv.emplace();
    if (one.kv) {
      sum.kv->tokens += one.kv->tokens;
      sum.kv->bytes += one.kv->bytes;
      sum.kv->full_bytes += one.kv->full_bytes;
    }
    sum.timing.queued_ms = std::max(sum.timing.queued_ms, one.timing.queued_ms);
    sum.timing.prefill_ms = std::max(sum.timing.prefill_ms, one.timing.prefill_ms);
    sum.timing.first_token_ms = std::min(sum.timing.first_token_ms, one.timing.first_token_ms);
    sum.timing.decode_ms = std::max(sum.timing.decode_ms, one.timing.decode_ms);
    if (one.timeline.size() > sum.timeline.size())
      sum.timeline = one.timeline;  // the last to end has all marks
  }
  return sum;
}

}  // namespace reprise::protocol
