// One actor asks several others at once. A deadline bounds each wait; a CancelSource ends the waits that are
// no longer needed.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/system.h"

using namespace reprise::runtime;
using namespace std::chrono_literals;

namespace {

struct AskPrice {
  using Reply = int;
};

class Shop : public Actor {
 public:
  using Accepts = Messages<AskPrice>;
  explicit Shop(int price) : price_(price) {}
  void on(AskPrice, ReplyTo<int> reply) {  // answers later; without a price, never
    price_ != 0 ? reply.answer(price_) : unanswered_.push_back(std::move(reply));
  }

 private:
  const int price_;
  std::vector<ReplyTo<int>> unanswered_;
};

struct Compare {
  using Reply = std::vector<std::string>;  // per shop, in order of arrival: the price, or the error
  std::size_t enough;  // number of prices after which the remaining questions are canceled
  Duration limit;
};

/// A serial actor: handles one Compare at a time.
class Buyer : public Actor {
 public:
  using Accepts = Messages<Compare>;
  explicit Buyer(std::vector<Ref<AskPrice>> shops) : shops_(std::move(shops)) {}

  void on(Compare compare, ReplyTo<std::vector<std::string>> reply) {
    reply_ = std::move(reply);
    answers_.clear();
    still_wanted_ = compare.enough;
    rest_ = CancelSource();
    for (const Ref<AskPrice>& shop : shops_) launch(ask_one(shop, Clock::now() + compare.limit));
  }

 private:
  // All coroutines of an actor run in its turns, so they share its state without locks.
  Task<void> ask_one(Ref<AskPrice> shop, TimePoint deadline) {
    auto asked = shop.ask(AskPrice{}, deadline, rest_.token());
    const Result<int> price = co_await asked;
    answers_.push_back(price ? std::to_string(*price) : price.error().describe());
    if (price && --still_wanted_ == 0) rest_.cancel();
    if (answers_.size() == shops_.size()) reply_.answer(answers_);
  }

  const std::vector<Ref<AskPrice>> shops_;
  std::vector<std::string> answers_;
  std::size_t still_wanted_ = 0;
  CancelSource rest_;
  ReplyTo<std::vector<std::string>> reply_;
};

bool check(const Result<std::vector<std::string>>& answers, const char* last) {
  if (!answers) return std::fprintf(stderr, "no answer: %s\n", answers.error().describe().c_str()), false;
  for (const std::string& answer : *answers) std::printf("%s; ", answer.c_str());
  std::printf("expected two prices, then: %s\n", last);
  return answers->size() == 3 && answers->back() == last;
}

}  // namespace

int main() {
  System system({.workers = 2});
  std::vector<Ref<AskPrice>> shops;
  for (const int price : {7, 0, 5}) shops.push_back(system.spawn<Shop>({}, price));
  const auto buyer = system.spawn<Buyer>({}, shops);

  // First three prices are wanted and one never comes; then two suffice, and the third question is canceled.
  if (!check(buyer.ask_blocking(Compare{.enough = 3, .limit = 1s}, 30s), "deadline passed")) return 1;
  if (!check(buyer.ask_blocking(Compare{.enough = 2, .limit = 1h}, 30s), "cancelled")) return 1;
  return 0;
}
