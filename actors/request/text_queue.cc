#include "actors/request/text_queue.h"

#include <algorithm>

namespace reprise::actors {

using protocol::ServiceError;
using protocol::ServiceErrorCode;

std::optional<std::string> TextProgress::problem(runtime::TimePoint now) const {
  const std::size_t held_up = held_up_.load(std::memory_order_relaxed);
  const auto idle =
      std::chrono::duration_cast<std::chrono::seconds>(now - since_.load(std::memory_order_relaxed));
  if (held_up == 0 || idle < kPatience) return std::nullopt;
  return "tokenizing stuck: " + std::to_string(held_up) + (held_up == 1 ? " job waits" : " jobs wait") +
         " and none has ended for " + std::to_string(idle.count()) + " s";
}

TextQueue::TextQueue(const Limits& limits, std::vector<runtime::RefOf<TextActor>> actors,
                     std::shared_ptr<TextProgress> progress)
    : actors_(std::move(actors)), progress_(std::move(progress)), queue_(limits) {
  for (std::size_t i = 0; i < actors_.size(); ++i) free_.push_back(i);
}

void TextQueue::enter(std::unique_ptr<TextWork> work) {
  const bool all_stopped =
      std::all_of(actors_.begin(), actors_.end(), [](const auto& actor) { return actor.stopped(); });
  if (all_stopped) {
    work->refuse({ServiceErrorCode::kUnavailable,
                  "the tokenizer and template actors have failed too often; restart the server"});
    return;
  }
  const std::string owner = work->caller().tenant;
  if (auto refused = queue_.push(owner, std::move(work))) {
    const bool of_tenant = !(*refused)->caller().tenant.empty();
    (*refused)->refuse({ServiceErrorCode::kOverloaded,
                        of_tenant ? "too many prompts of this tenant are waiting to be tokenized"
                                  : "too many prompts are waiting to be tokenized",
                        "", std::chrono::seconds(1)});
  }
  hand_out();
  note(false);
}

std::optional<std::size_t> TextQueue::free_actor() {
  while (!free_.empty()) {
    const std::size_t actor = free_.back();
    free_.pop_back();
    if (!actors_[actor].stopped()) return actor;
  }
  return std::nullopt;
}

void TextQueue::hand_out() {
  while (const auto actor = free_actor()) {
    auto next = queue_.take();
    while (next && !next->item->wanted()) {
      queue_.ended(next->owner);
      next = queue_.take();
    }
    if (!next) {
      free_.push_back(*actor);
      return;
    }
    launch(run(*actor, std::move(next->owner), std::move(next->item)));
  }
}

runtime::Task<void> TextQueue::run(std::size_t actor, std::string owner, std::unique_ptr<TextWork> work) {
  auto doing = actors_[actor].ask(DoTextWork{std::move(work)}, runtime::TimePoint::max());
  const runtime::Result<protocol::Nothing> done = co_await doing;  // the work answers its asker itself
  queue_.ended(owner);
  free_.push_back(actor);
  hand_out();
  note(true);
}

void TextQueue::note(bool one_ended) {
  progress_->note(free_.empty() ? queue_.waiting() : 0, one_ended, runtime::Clock::now());
}

}  // namespace reprise::actors
