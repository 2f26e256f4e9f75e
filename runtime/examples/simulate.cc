// Tests actors in many orders: a customer repeats orders that time out, and a shop must book each order once. The
// simulation delays messages and lets time pass, without waiting; a seed that fails can be repeated exactly.

#include <chrono>
#include <cstdio>
#include <set>

#include "runtime/testing/simulator.h"

using namespace reprise::runtime;
using namespace std::chrono_literals;

namespace {

struct Order {
  using Reply = int;  // the number of orders booked so far
  int id;
};
struct Booked {
  using Reply = int;
};

class Shop : public Actor {
 public:
  using Accepts = Messages<Order, Booked>;
  int on(Order order) {
    if (known_.insert(order.id).second) ++booked_;  // a repeated order is not booked again
    return booked_;
  }
  int on(Booked) { return booked_; }

 private:
  std::set<int> known_;
  int booked_ = 0;
};

struct Buy {
  using Reply = int;  // the number of attempts
  int orders;
};

class Customer : public Actor {
 public:
  using Accepts = Messages<Buy>;
  explicit Customer(Ref<Order> shop) : shop_(std::move(shop)) {}

  Task<int> on(Buy buy) {
    int attempts = 0;
    for (int id = 0; id < buy.orders; ++id) {
      bool booked = false;
      while (!booked) {
        ++attempts;
        auto asked = shop_.ask(Order{id}, 100ms);
        const Result<int> answer = co_await asked;
        booked = answer.ok();
      }
    }
    co_return attempts;
  }

 private:
  const Ref<Order> shop_;
};

struct Outcome {
  int booked = 0;
  int attempts = 0;
};

Outcome shop_with(std::uint64_t seed) {
  // Each message may take up to 200 ms of virtual time, so that many asks end at their deadline.
  Simulator simulator({.seed = seed, .faults = {.delayed_percent = 50, .max_delay = 200ms}});
  const auto shop = simulator.system().spawn<Shop>();
  const auto customer = simulator.system().spawn<Customer>({}, shop);
  const Result<int> attempts = simulator.ask(customer, Buy{.orders = 5}, 1h);
  const Result<int> booked = simulator.ask(shop, Booked{}, 1h);
  if (!attempts || !booked) return {};
  return {*booked, *attempts};
}

}  // namespace

int main() {
  int repeated = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Outcome outcome = shop_with(seed);
    if (outcome.booked != 5) {
      std::fprintf(stderr, "seed %llu: %d of 5 orders booked\n", static_cast<unsigned long long>(seed),
                   outcome.booked);
      return 1;
    }
    repeated += outcome.attempts - 5;
  }
  std::printf("200 simulations, %d repeated orders, each booked once\n", repeated);
  return repeated > 0 ? 0 : 1;
}
