#include "protocol/grammar/content_masks.h"

#include <algorithm>

#include "protocol/grammar/json_char.h"

namespace reprise::protocol::grammar {
namespace {

void forbid(TokenMask& mask, TokenId token) {
  const auto t = static_cast<std::uint32_t>(token);
  mask.bits[t / 32] &= ~(std::uint32_t{1} << (t % 32));
}

}  // namespace

// A rule as a machine that reads bytes: places are numbered and steps found as they are met.
struct ContentMasks::Machine {
  struct Place {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    bool branches = false;  // other places decide what follows
    bool free = false;      // every plain character leads back here
    std::unique_ptr<std::array<Local, 256>> next{};
  };
  ContentRule rule{};
  const CharDfa* dfa = nullptr;
  const std::vector<ObjectSpec::Reach>* reach = nullptr;
  std::vector<Place> places{};
  std::unordered_map<std::uint64_t, Local> numbers{};
};

struct ContentMasks::Walk {
  Machine& machine;
  ContentMask& mask;
  bool counted = false;  // plain tokens are in the mask as far as they may be, and not looked at
};

ContentMasks::Machine& ContentMasks::machine_of(const ContentRule& rule) {
  auto& machine = machines_[rule];
  if (machine == nullptr) {
    machine = std::make_shared<Machine>();
    machine->rule = rule;
    if (rule.dfa != kNowhere) machine->dfa = &program_.dfas[rule.dfa];
    if (rule.object != kNowhere) machine->reach = &program_.objects[rule.object].reach;
  }
  return *machine;
}

ContentMasks::Local ContentMasks::number_of(Machine& machine, std::uint32_t a, std::uint32_t b,
                                            bool branches) {
  const auto [at, is_new] =
      machine.numbers.try_emplace(std::uint64_t{a} << 32 | b, static_cast<Local>(machine.places.size()));
  if (is_new) {
    const bool free =
        b == 0 && !branches &&
        (machine.dfa != nullptr ? machine.dfa->states[a].free : machine.rule.most == kUnbounded);
    machine.places.push_back({.a = a, .b = b, .branches = branches, .free = free});
    keep_bytes(sizeof(Machine::Place) + 64);
  }
  return at->second;
}

ContentMasks::Local ContentMasks::find_step(Machine& machine, Local from, std::uint8_t byte) {
  const std::uint32_t a = machine.places[static_cast<std::size_t>(from)].a;
  const CharStep step = json_step(machine.places[static_cast<std::size_t>(from)].b, byte);
  const ContentRule& rule = machine.rule;
  const CharDfa* dfa = machine.dfa;
  switch (step.kind) {
    case CharStep::Kind::kBad:
      return kOut;
    case CharStep::Kind::kQuote:
      return (dfa != nullptr ? dfa->states[a].label != 0 : a >= rule.least) ? kLeaves : kOut;
    case CharStep::Kind::kWhole: {
      if (dfa == nullptr) {
        if (rule.most == kUnbounded) return number_of(machine, std::min(a + 1, rule.least), 0, false);
        return a + 1 > rule.most ? kOut : number_of(machine, a + 1, 0, false);
      }
      const std::uint32_t next = dfa->step(a, step.code_point);
      if (next == CharDfa::kDead) return kOut;
      return number_of(machine, next, 0, machine.reach != nullptr && !(*machine.reach)[next].others);
    }
    case CharStep::Kind::kPart:
      break;
  }
  if (dfa == nullptr) return a >= rule.most ? kOut : number_of(machine, a, step.progress, false);
  bool leads_on = false;
  bool to_others = false;
  const CharDfa::State& state = dfa->states[a];
  budget_.charge(1 + (state.edges_end - state.edges) / 4);
  for (std::uint32_t e = state.edges; e < state.edges_end && !to_others; ++e) {
    const CharDfa::Edge& edge = dfa->edges[e];
    const auto meets = [&](const CharRange& range) {
      return edge.low <= range.high && edge.high >= range.low;
    };
    if (!meets(step.possible) && !meets(step.possible2)) continue;
    leads_on = true;
    to_others = machine.reach == nullptr || (*machine.reach)[edge.target].others;
  }
  return leads_on ? number_of(machine, a, step.progress, !to_others) : kOut;
}

// The tokens below a node of the trie. `has_plain`: the plain ones are in the mask.
void ContentMasks::walk(Walk& walk, std::uint32_t parent, Local at, bool has_plain) {
  const auto nodes = vocabulary_.nodes();
  Machine& machine = walk.machine;
  TokenMask& mask = walk.mask.tokens;
  const auto plain = vocabulary_.plain_tokens();
  const bool free = machine.places[static_cast<std::size_t>(at)].free;
  if (free && !has_plain) {
    for (std::uint32_t i = nodes[parent].plain; i < nodes[parent].plain_end; ++i) mask.allow(plain[i]);
    has_plain = true;
  }
  for (std::uint32_t child = parent + 1; child < nodes[parent].end; child = nodes[child].end) {
    const Vocabulary::TrieNode& node = nodes[child];
    budget_.charge();
    if ((free || walk.counted) && node.only_plain) return;  // and so are all behind it
    auto& table = machine.places[static_cast<std::size_t>(at)].next;
    if (table == nullptr) {
      table = std::make_unique<std::array<Local, 256>>();
      table->fill(kUnknown);
      keep_bytes(sizeof *table);
    }
    Local next = (*table)[node.byte];
    if (next == kUnknown) {
      next = find_step(machine, at, node.byte);
      (*machine.places[static_cast<std::size_t>(at)].next)[node.byte] = next;
    }
    const bool next_free = next >= 0 && machine.places[static_cast<std::size_t>(next)].free;
    bool keeps_plain = has_plain;
    if (has_plain && !walk.counted && !next_free && node.plain < node.plain_end) {
      for (std::uint32_t i = node.plain; i < node.plain_end; ++i) forbid(mask, plain[i]);
      keeps_plain = false;
    }
    if (next == kOut) continue;
    if (next == kLeaves) {
      walk.mask.leaves.push_back(
          {child, machine.dfa == nullptr
                      ? 1
                      : machine.dfa->states[machine.places[static_cast<std::size_t>(at)].a].label});
      continue;
    }
    const Machine::Place& place = machine.places[static_cast<std::size_t>(next)];
    if (place.branches) {
      const Machine::Place& before = machine.places[static_cast<std::size_t>(at)];
      walk.mask.branches.push_back({child, before.a, before.b});
      continue;
    }
    for (TokenId id = node.token; id >= 0; id = vocabulary_.same_as(id)) mask.allow(id);
    if (next_free && keeps_plain && node.only_plain) continue;
    if (node.end > child + 1) this->walk(walk, child, next, keeps_plain);
  }
}

// Whether nearly all characters lead where all plain tokens may follow.
bool ContentMasks::mostly_free(Machine& machine, Local at) {
  std::size_t free = 0;
  constexpr std::uint8_t kSome[] = {' ', 'q', 'K', '7', ')', 'z'};
  for (const std::uint8_t byte : kSome) {
    const Local next = find_step(machine, at, byte);
    free += next >= 0 && machine.places[static_cast<std::size_t>(next)].free ? 1 : 0;
  }
  return free >= 4;
}

const ContentMask& ContentMasks::of(const ContentRule& rule, std::uint32_t a, std::uint32_t b) {
  if (const auto known = masks_.find({rule, a, b}); known != masks_.end()) return *known->second;
  Machine& machine = machine_of(rule);
  const Local start = number_of(machine, a, b, false);
  const bool free = machine.places[static_cast<std::size_t>(start)].free;
  const bool counted = machine.dfa == nullptr && rule.most != kUnbounded && b == 0;
  const bool has_plain = counted || free || (b == 0 && mostly_free(machine, start));
  const std::uint32_t chars = counted ? rule.most - a : Vocabulary::kMostChars;
  auto made = std::make_unique<ContentMask>(has_plain ? vocabulary_.plain_up_to(chars)
                                                      : TokenMask(vocabulary_.size()));
  Walk one{machine, *made, counted};
  if (!vocabulary_.nodes().empty()) walk(one, 0, start, has_plain);
  keep_bytes(made->bytes() + 128);
  return *masks_.emplace(std::tuple(rule, a, b), std::move(made)).first->second;
}

}  // namespace reprise::protocol::grammar
