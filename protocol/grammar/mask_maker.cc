#include "protocol/grammar/mask_maker.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <stdexcept>
#include <string_view>
#include <tuple>

#include "protocol/grammar/endings.h"
#include "protocol/grammar/vocabulary.h"

namespace reprise::protocol::grammar {
namespace {

// The tokens that stay within a JSON string from a location, and the trie nodes at which others leave it.
//
// This depends only on the string's rule, not on the context, so it is computed once per location of a rule
// and cached. MaskMaker handles what follows the closing quote, as it knows the full state. Most tokens stay
// within the string, so little work remains per mask.
struct ContentMask {
  explicit ContentMask(TokenMask stay) : tokens(std::move(stay)) {}

  TokenMask tokens;
  /// A closing quote: its trie node, and the automaton's label there (1 without an automaton).
  struct Leave {
    std::uint32_t node = 0;
    std::uint32_t label = 0;
  };
  std::vector<Leave> leaves{};
  /// For keys: from this node's byte on the key can only become a declared property, so it depends on the
  /// members so far. a, b: the location before that byte.
  struct Branch {
    std::uint32_t node = 0;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
  };
  std::vector<Branch> branches{};

  std::size_t bytes() const {
    return sizeof *this + tokens.bits.size() * 4 + leaves.size() * sizeof(Leave) +
           branches.size() * sizeof(Branch);
  }
};

class ContentMasks {
 public:
  ContentMasks(const Program& program, const Vocabulary& vocabulary, WorkBudget& budget)
      : program_(program), vocabulary_(vocabulary), budget_(budget) {}

  /// a: automaton state or character count; b: CharProgress. The reference is valid until the next call.
  const ContentMask& of(const ContentRule& rule, std::uint32_t a, std::uint32_t b);
  std::size_t bytes() const { return bytes_; }

 private:
  using Local = std::int32_t;  // index of a location within the string
  static constexpr Local kUnknown = -1;
  static constexpr Local kOut = -2;
  static constexpr Local kLeaves = -3;
  struct Machine;
  struct Walk;

  void keep_bytes(std::size_t bytes) {
    bytes_ += bytes;
    budget_.take(bytes);
  }
  Machine& machine_of(const ContentRule& rule);
  Local find_step(Machine& machine, Local from, std::uint8_t byte);
  Local number_of(Machine& machine, std::uint32_t a, std::uint32_t b, bool branches);
  void walk(Walk& walk, std::uint32_t parent, Local at, bool has_plain);
  bool mostly_free(Machine& machine, Local at);

  const Program& program_;
  const Vocabulary& vocabulary_;
  WorkBudget& budget_;
  std::map<ContentRule, std::shared_ptr<Machine>> machines_;
  std::map<std::tuple<ContentRule, std::uint32_t, std::uint32_t>, std::unique_ptr<ContentMask>> masks_;
  std::size_t bytes_ = 0;
};

void forbid(TokenMask& mask, TokenId token) {
  const auto t = static_cast<std::uint32_t>(token);
  mask.bits[t / 32] &= ~(std::uint32_t{1} << (t % 32));
}

// A ContentRule as a lazily built automaton over bytes.
struct ContentMasks::Machine {
  struct Location {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    bool branches = false;  // what follows depends on the context
    bool free = false;      // every plain character leads back here
    std::unique_ptr<std::array<Local, 256>> next{};
  };
  ContentRule rule{};
  const CharDfa* dfa = nullptr;
  const std::vector<ObjectSpec::Reach>* reach = nullptr;
  std::vector<Location> locations{};
  std::unordered_map<std::uint64_t, Local> numbers{};

  Location& at(Local local) { return locations[static_cast<std::size_t>(local)]; }
};

struct ContentMasks::Walk {
  Machine& machine;
  ContentMask& mask;
  bool counted = false;  // the mask already has the plain tokens that the count allows
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
      machine.numbers.try_emplace(std::uint64_t{a} << 32 | b, static_cast<Local>(machine.locations.size()));
  if (is_new) {
    const bool free = b == 0 && !branches &&
                      (machine.dfa != nullptr ? machine.dfa->states[a].free : machine.rule.max == kUnbounded);
    machine.locations.push_back({.a = a, .b = b, .branches = branches, .free = free});
    keep_bytes(sizeof(Machine::Location) + 64);
  }
  return at->second;
}

ContentMasks::Local ContentMasks::find_step(Machine& machine, Local from, std::uint8_t byte) {
  const std::uint32_t a = machine.at(from).a;
  const CharStep step = json_step(machine.at(from).b, byte);
  const ContentRule& rule = machine.rule;
  const CharDfa* dfa = machine.dfa;
  switch (step.kind) {
    case CharStep::Kind::kBad:
      return kOut;
    case CharStep::Kind::kQuote:
      return (dfa != nullptr ? dfa->states[a].label != 0 : a >= rule.min) ? kLeaves : kOut;
    case CharStep::Kind::kWhole: {
      if (dfa == nullptr) {
        if (rule.max == kUnbounded) return number_of(machine, std::min(a + 1, rule.min), 0, false);
        return a + 1 > rule.max ? kOut : number_of(machine, a + 1, 0, false);
      }
      const std::uint32_t next = dfa->step(a, step.code_point);
      if (next == CharDfa::kDead) return kOut;
      return number_of(machine, next, 0, machine.reach != nullptr && !(*machine.reach)[next].others);
    }
    case CharStep::Kind::kPart:
      break;
  }
  if (dfa == nullptr) return a >= rule.max ? kOut : number_of(machine, a, step.progress, false);
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

// Adds the tokens below a trie node. `has_plain`: the mask already has the plain ones.
void ContentMasks::walk(Walk& walk, std::uint32_t parent, Local at, bool has_plain) {
  const auto nodes = vocabulary_.nodes();
  Machine& machine = walk.machine;
  TokenMask& mask = walk.mask.tokens;
  const auto plain = vocabulary_.plain_tokens();
  const bool free = machine.at(at).free;
  if (free && !has_plain) {
    for (std::uint32_t i = nodes[parent].plain; i < nodes[parent].plain_end; ++i) mask.allow(plain[i]);
    has_plain = true;
  }
  for (std::uint32_t child = parent + 1; child < nodes[parent].end; child = nodes[child].end) {
    const Vocabulary::TrieNode& node = nodes[child];
    budget_.charge();
    if ((free || walk.counted) && node.only_plain) return;  // all following siblings are plain too
    auto& table = machine.at(at).next;
    if (table == nullptr) {
      table = std::make_unique<std::array<Local, 256>>();
      table->fill(kUnknown);
      keep_bytes(sizeof *table);
    }
    Local next = (*table)[node.byte];
    if (next == kUnknown) {
      next = find_step(machine, at, node.byte);
      (*machine.at(at).next)[node.byte] = next;
    }
    const bool next_free = next >= 0 && machine.at(next).free;
    bool keeps_plain = has_plain;
    if (has_plain && !walk.counted && !next_free && node.plain < node.plain_end) {
      for (std::uint32_t i = node.plain; i < node.plain_end; ++i) forbid(mask, plain[i]);
      keeps_plain = false;
    }
    if (next == kOut) continue;
    if (next == kLeaves) {
      walk.mask.leaves.push_back(
          {child, machine.dfa == nullptr ? 1 : machine.dfa->states[machine.at(at).a].label});
      continue;
    }
    const Machine::Location& location = machine.at(next);
    if (location.branches) {
      const Machine::Location& before = machine.at(at);
      walk.mask.branches.push_back({child, before.a, before.b});
      continue;
    }
    for (TokenId id = node.token; id >= 0; id = vocabulary_.same_as(id)) mask.allow(id);
    if (next_free && keeps_plain && node.only_plain) continue;
    if (node.end > child + 1) this->walk(walk, child, next, keeps_plain);
  }
}

// Samples a few characters to see whether most lead to a free location.
bool ContentMasks::mostly_free(Machine& machine, Local at) {
  std::size_t free = 0;
  constexpr std::uint8_t kSome[] = {' ', 'q', 'K', '7', ')', 'z'};
  for (const std::uint8_t byte : kSome) {
    const Local next = find_step(machine, at, byte);
    free += next >= 0 && machine.at(next).free ? 1 : 0;
  }
  return free >= 4;
}

const ContentMask& ContentMasks::of(const ContentRule& rule, std::uint32_t a, std::uint32_t b) {
  if (const auto known = masks_.find({rule, a, b}); known != masks_.end()) return *known->second;
  Machine& machine = machine_of(rule);
  const Local start = number_of(machine, a, b, false);
  const bool free = machine.at(start).free;
  const bool counted = machine.dfa == nullptr && rule.max != kUnbounded && b == 0;
  const bool has_plain = counted || free || (b == 0 && mostly_free(machine, start));
  const std::uint32_t chars = counted ? rule.max - a : Vocabulary::kMaxChars;
  auto made = std::make_unique<ContentMask>(has_plain ? vocabulary_.plain_up_to(chars)
                                                      : TokenMask(vocabulary_.size()));
  Walk one{machine, *made, counted};
  if (!vocabulary_.nodes().empty()) walk(one, 0, start, has_plain);
  keep_bytes(made->bytes() + 128);
  return *masks_.emplace(std::tuple(rule, a, b), std::move(made)).first->second;
}

}  // namespace

/// The text that completes a reply.
struct ClosingText {
  Ending ending{};
  std::vector<std::uint32_t> tokens_left{};  // by offset: minimum tokens from there to the end
};

/// Computes how many tokens a reply needs to end, and masks that make it end before its limit.
///
/// A state's ending is a short text (endings.h), spelled with the fewest tokens. Near the limit a mask has
/// only tokens after which the remaining limit suffices for the next state's ending. When it just suffices
/// for one text, the reply becomes that text. Masks depend only on the reply's tokens and limit.
class Closing {
 public:
  static constexpr std::uint32_t kNever = UINT32_MAX;  // tokens
  static constexpr std::uint32_t kMaxTokens = 256;     // longer endings are ignored
  static constexpr std::uint32_t kMaxWindow = 256;
  /// Distance to the limit, in tokens, above which masks are not restricted.
  static constexpr std::size_t kMaxDistance = kMaxTokens + kMaxWindow;

  Closing(const Program& program, const Vocabulary& vocabulary);

  /// Returns the state's ending; nothing if none is known or the vocabulary cannot spell it.
  std::optional<ClosingText> text(Matcher& matcher, Matcher::State state) const;
  /// Returns the ending's token count, or kNever.
  std::uint32_t tokens_to_end(Matcher& matcher, Matcher::State state) const;
  /// Returns an upper bound of tokens_to_end() after any token that stays within this string or key.
  std::uint32_t tokens_within(Matcher& matcher, Matcher::State state, const Matcher::Within& within) const;
  /// Returns approximately how many tokens one token can add to the distance to the end.
  std::uint32_t window() const { return window_; }

  std::size_t bytes() const { return sizeof *this + endings_.bytes(); }

  /// Returns the tokens that continue the text at an offset and leave enough of `left` for the rest.
  SharedMask mask(const ClosingText& text, std::size_t offset, std::size_t left) const;

 private:
  template <class Visit>
  void for_each_token(const Ending& ending, std::size_t offset, const Visit& visit) const;

  const Vocabulary& vocabulary_;
  const Endings endings_;
  const std::uint32_t window_;
  std::array<std::uint32_t, 256> first_nodes_{};  // trie node by first byte; 0: none
  std::map<std::string, std::vector<TokenId>> special_texts_;
};

Closing::Closing(const Program& program, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      endings_(program),
      window_(std::min(kMaxWindow, 2 * endings_.max_cost() + 32)) {
  const auto nodes = vocabulary.nodes();
  if (nodes.empty()) return;
  for (std::uint32_t child = 1; child < nodes[0].end; child = nodes[child].end) {
    first_nodes_[nodes[child].byte] = child;
  }
  for (const TokenId id : vocabulary.specials()) special_texts_[vocabulary.token(id).bytes].push_back(id);
}

// Calls visit(token, its bytes) for each token that continues the text at an offset.
template <class Visit>
void Closing::for_each_token(const Ending& ending, std::size_t offset, const Visit& visit) const {
  const std::string_view rest = std::string_view(ending.text).substr(offset);
  if (rest.empty()) return;
  const auto nodes = vocabulary_.nodes();
  std::uint32_t node = first_nodes_[static_cast<std::uint8_t>(rest[0])];
  for (std::size_t length = 1; node != 0; ++length) {
    for (TokenId id = nodes[node].token; id >= 0; id = vocabulary_.same_as(id)) visit(id, length);
    if (length == rest.size()) break;
    const auto byte = static_cast<std::uint8_t>(rest[length]);
    std::uint32_t next = 0;
    for (std::uint32_t child = node + 1; child < nodes[node].end; child = nodes[child].end) {
      if (nodes[child].byte != byte) continue;
      next = child;
      break;
    }
    node = next;
  }
  for (const Ending::Mark& mark : ending.marks) {
    if (mark.begin != offset) continue;
    const auto found = special_texts_.find(std::string(rest.substr(0, mark.bytes)));
    if (found == special_texts_.end()) continue;
    for (const TokenId id : found->second) visit(id, mark.bytes);
  }
}

std::optional<ClosingText> Closing::text(Matcher& matcher, Matcher::State state) const {
  std::optional<Ending> ending = matcher.ending(state, endings_);
  if (!ending) return std::nullopt;
  ClosingText found{.ending = std::move(*ending), .tokens_left = {}};
  std::vector<std::uint32_t>& left = found.tokens_left;
  left.assign(found.ending.text.size() + 1, kNever);
  left.back() = 0;
  for (std::size_t at = found.ending.text.size(); at-- > 0;) {
    for_each_token(found.ending, at, [&](TokenId, std::size_t length) {
      const std::uint32_t rest = left[at + length];
      if (rest != kNever) left[at] = std::min(left[at], rest + 1);
    });
  }
  if (left.front() > kMaxTokens) return std::nullopt;
  return found;
}

std::uint32_t Closing::tokens_to_end(Matcher& matcher, Matcher::State state) const {
  if (matcher.accepts(state)) return 0;
  const auto found = text(matcher, state);
  return found ? found->tokens_left.front() : kNever;
}

std::uint32_t Closing::tokens_within(Matcher& matcher, Matcher::State state,
                                     const Matcher::Within& within) const {
  const std::uint32_t here = tokens_to_end(matcher, matcher.alone(state, within));
  if (here == kNever) return kNever;
  std::uint32_t more = 8;  // tokens that may be needed to complete a character: \ud8 needs that many
  if (within.rule.dfa != kNowhere) more += endings_.max_chars_cost(within.rule.dfa);
  if (within.rule.object != kNowhere) more += endings_.max_other_cost(within.rule.object);
  return here + more;
}

SharedMask Closing::mask(const ClosingText& text, std::size_t offset, std::size_t left) const {
  auto mask = std::make_shared<TokenMask>(vocabulary_.size());
  const auto allow = [&](TokenId id) {
    if (mask->allows(id)) return;
    mask->allow(id);
    ++mask->count;
  };
  if (offset >= text.ending.text.size()) {
    for (const TokenId id : vocabulary_.stops()) allow(id);
    mask->ends = mask->count == 0;
    return mask;
  }
  for_each_token(text.ending, offset, [&](TokenId id, std::size_t length) {
    const std::uint32_t rest = text.tokens_left[offset + length];
    if (rest != kNever && std::size_t{rest} + 1 <= left) allow(id);
  });
  return mask;
}

// The caches, which are dropped as a whole when memory is exceeded.
struct MaskMaker::Known {
  Known(const std::shared_ptr<const Program>& program, const Vocabulary& vocabulary, WorkBudget& budget)
      : matcher(program, budget), contents(*program, vocabulary, budget) {}
  Matcher matcher;
  ContentMasks contents;
  std::unordered_map<Matcher::State, SharedMask> masks{};
  std::unordered_multimap<std::uint64_t, SharedMask> by_content{};
  std::unordered_map<Matcher::State, std::uint32_t> tokens_to_end{};  // upper bound; may be Closing::kNever
  std::unordered_map<Matcher::State, std::uint32_t> worst_next{};     // upper bound after the worst token
  std::size_t mask_bytes = 0;

  std::size_t bytes() const { return matcher.bytes() + contents.bytes() + mask_bytes; }
};

struct MaskMaker::Closable {
  std::shared_ptr<TokenMask> mask;
  std::uint32_t worst = 0;
};

MaskMaker::MaskMaker(std::shared_ptr<const Program> program, std::shared_ptr<const Vocabulary> vocabulary)
    : program_(std::move(program)),
      vocabulary_(std::move(vocabulary)),
      program_bytes_(program_->bytes()),
      budget_("making a mask", program_->limits,
              {.steps = program_->limits.mask_steps, .bytes = program_->limits.mask_bytes}),
      known_(std::make_unique<Known>(program_, *vocabulary_, budget_)) {
  count_bytes();
}

MaskMaker::~MaskMaker() = default;

void MaskMaker::count_bytes() {
  const std::size_t closing = closing_ == nullptr ? 0 : closing_->bytes();
  bytes_.store(program_bytes_ + known_->bytes() + closing, std::memory_order_relaxed);
}

Matcher::State MaskMaker::step(Known& known, Matcher::State state, TokenId token) const {
  const auto stops = vocabulary_->stops();
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return Matcher::kDead;
  if (token < 0 || static_cast<std::size_t>(token) >= vocabulary_->token_count()) return Matcher::kDead;
  const Vocabulary::Token& entry = vocabulary_->token(token);
  if (entry.bytes.empty()) return Matcher::kDead;
  return entry.special ? known.matcher.step_special(state, entry.bytes)
                       : known.matcher.step(state, entry.bytes);
}

SharedMask MaskMaker::mask_at(Known& known, Matcher::State state) const {
  if (const auto found = known.masks.find(state); found != known.masks.end()) return found->second;
  const Matcher::State typical = known.matcher.typical(state);
  const auto found = known.masks.find(typical);
  SharedMask mask = found != known.masks.end() ? found->second : made(known, typical);
  known.mask_bytes += 64;
  if (state == typical) mask = with_long_tokens(known, state, mask);
  known.masks.emplace(typical, mask);
  if (state == typical) return mask;
  mask = with_long_tokens(known, state, mask);
  known.masks.emplace(state, mask);
  return mask;
}

// Corrects the mask for tokens that are too long for merged states.
SharedMask MaskMaker::with_long_tokens(Known& known, Matcher::State state, const SharedMask& mask) const {
  std::shared_ptr<TokenMask> other;
  for (const TokenId id : vocabulary_->long_tokens()) {
    const bool allowed = known.matcher.step(state, vocabulary_->token(id).bytes) != Matcher::kDead;
    if (allowed == mask->allows(id)) continue;
    if (other == nullptr) other = std::make_shared<TokenMask>(*mask);
    const auto t = static_cast<std::uint32_t>(id);
    other->bits[t / 32] ^= std::uint32_t{1} << (t % 32);
    other->count += allowed ? 1 : -1U;
  }
  return other == nullptr ? mask : kept(known, std::move(other));
}

SharedMask MaskMaker::made(Known& known, Matcher::State state) const {
  Matcher& matcher = known.matcher;
  auto mask = std::make_shared<TokenMask>(vocabulary_->size());
  if (!vocabulary_->nodes().empty()) {
    const Matcher::State rest = add_contents(known, state, *mask);
    if (rest != Matcher::kDead) walk(matcher, 0, rest, false, *mask);
  }
  if (matcher.takes_special(state)) {
    for (const TokenId id : vocabulary_->specials()) {
      if (matcher.step_special(state, vocabulary_->token(id).bytes) != Matcher::kDead) mask->allow(id);
    }
  }
  if (matcher.accepts(state)) {
    for (const TokenId id : vocabulary_->stops()) mask->allow(id);
  }
  for (const std::uint32_t word : mask->bits) mask->count += static_cast<std::uint32_t>(std::popcount(word));
  mask->ends = mask->count == 0 && matcher.accepts(state);
  return kept(known, std::move(mask));
}

// Returns an equal mask from the cache, if there is one.
SharedMask MaskMaker::kept(Known& known, std::shared_ptr<TokenMask> mask) const {
  std::uint64_t hash = 0;
  for (const std::uint32_t word : mask->bits) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29;
  }
  const auto [begin, end] = known.by_content.equal_range(hash);
  const auto same = std::find_if(begin, end, [&](const auto& entry) {
    return entry.second->bits == mask->bits && entry.second->ends == mask->ends;
  });
  if (same != end) return same->second;
  known.by_content.emplace(hash, mask);
  known.mask_bytes += mask->bits.size() * 4 + 128;
  return mask;
}

// Adds the tokens from locations within strings. Returns the state of the other locations.
Matcher::State MaskMaker::add_contents(Known& known, Matcher::State state, TokenMask& mask) const {
  Matcher& matcher = known.matcher;
  const std::vector<Matcher::Within> strings = matcher.within(state);
  if (strings.empty()) return state;
  const auto nodes = vocabulary_->nodes();
  for (const Matcher::Within& one : strings) {
    budget_.charge(mask.bits.size() / 16);
    const ContentMask& content = known.contents.of(one.rule, one.location.a, one.location.b);
    for (std::size_t i = 0; i < mask.bits.size(); ++i) mask.bits[i] |= content.tokens.bits[i];
    std::uint32_t label = 0;
    Matcher::State after = Matcher::kDead;
    for (const ContentMask::Leave& leave : content.leaves) {
      if (leave.label != label) after = matcher.left(one.location, label = leave.label);
      if (after != Matcher::kDead) add_below(matcher, leave.node, after, mask);
    }
    for (const ContentMask::Branch& branch : content.branches) {
      const Matcher::State before = matcher.moved(one.location, branch.a, branch.b);
      const Matcher::State at = matcher.step(before, nodes[branch.node].byte);
      if (at != Matcher::kDead) add_below(matcher, branch.node, at, mask);
    }
  }
  return matcher.without(state, strings);
}

// Adds the tokens at and below a node, from the state after its bytes.
void MaskMaker::add_below(Matcher& matcher, std::uint32_t node, Matcher::State state, TokenMask& mask) const {
  const Vocabulary::TrieNode& at = vocabulary_->nodes()[node];
  for (TokenId id = at.token; id >= 0; id = vocabulary_->same_as(id)) mask.allow(id);
  if (at.end > node + 1) walk(matcher, node, state, false, mask);
}

// Adds all tokens below a trie node, reached in `state`. `has_plain`: the mask has the plain ones.
void MaskMaker::walk(Matcher& matcher, std::uint32_t parent, Matcher::State state, bool has_plain,
                     TokenMask& mask) const {
  const auto nodes = vocabulary_->nodes();
  if (!has_plain && matcher.is_free(state)) {
    const auto plain = vocabulary_->plain_tokens();
    for (std::uint32_t i = nodes[parent].plain; i < nodes[parent].plain_end; ++i) mask.allow(plain[i]);
    has_plain = true;
  }
  for (std::uint32_t child = parent + 1; child < nodes[parent].end; child = nodes[child].end) {
    const Vocabulary::TrieNode& node = nodes[child];
    budget_.charge();
    if (has_plain && node.only_plain) return;  // all following siblings are plain too
    const Matcher::State next = matcher.step(state, node.byte);
    if (next == Matcher::kDead) continue;
    for (TokenId id = node.token; id >= 0; id = vocabulary_->same_as(id)) mask.allow(id);
    if (node.end > child + 1) walk(matcher, child, next, has_plain, mask);
  }
}

void MaskMaker::let_go() {
  known_ = std::make_unique<Known>(program_, *vocabulary_, budget_);
  ++epoch_;
  count_bytes();
}

// Advances state_ over all tokens, from the beginning if the caches were dropped.
void ReplyConstraint::update_state() {
  if (epoch_ != maker_->epoch_) {
    state_ = maker_->known_->matcher.start();
    covered_ = 0;
    epoch_ = maker_->epoch_;
  }
  for (; covered_ < tokens_.size(); ++covered_) {
    state_ = maker_->step(*maker_->known_, state_, tokens_[covered_]);
    if (state_ == Matcher::kDead) {
      throw std::logic_error("a token was chosen that the reply's grammar does not allow");
    }
  }
}

SharedMask ReplyConstraint::mask(IsWanted wanted) {
  const std::lock_guard<std::mutex> held(maker_->lock_);
  if (maker_->known_->bytes() > maker_->program_->limits.matcher_bytes) {
    maker_->budget_.begin({});
    maker_->let_go();
  }
  maker_->budget_.begin(std::move(wanted));
  try {
    update_state();
    SharedMask mask = within_limit(maker_->mask_at(*maker_->known_, state_));
    maker_->count_bytes();
    return mask;
  } catch (const GrammarError&) {
    maker_->budget_.begin({});
    maker_->let_go();
    throw;
  }
}

SharedMask ReplyConstraint::mask_if_known() {
  const std::unique_lock<std::mutex> held(maker_->lock_, std::try_to_lock);
  constexpr std::size_t kFew = 8;  // number of tokens that are quickly read again
  if (!held.owns_lock() || (epoch_ != maker_->epoch_ && tokens_.size() > kFew)) return nullptr;
  constexpr std::uint64_t kFewSteps = 50'000;  // about 1 ms
  maker_->budget_.begin({}, kFewSteps);
  try {
    update_state();
  } catch (const GrammarError&) {
    return nullptr;  // mask() repeats the error, or takes longer
  }
  const auto found = maker_->known_->masks.find(state_);
  return found == maker_->known_->masks.end() ? nullptr : within_limit_if_known(found->second);
}

bool ReplyConstraint::accept(TokenId token) {
  const std::lock_guard<std::mutex> held(maker_->lock_);
  maker_->budget_.begin({});
  update_state();
  const Matcher::State next = maker_->step(*maker_->known_, state_, token);
  if (next == Matcher::kDead) return false;
  state_ = next;
  tokens_.push_back(token);
  ++covered_;
  return true;
}

bool ReplyConstraint::may_end() {
  const std::lock_guard<std::mutex> held(maker_->lock_);
  maker_->budget_.begin({});
  update_state();
  return maker_->known_->matcher.accepts(state_);
}

std::uint32_t MaskMaker::tokens_to_end(Known& known, Matcher::State state) const {
  const auto found = known.tokens_to_end.find(state);
  if (found != known.tokens_to_end.end()) return found->second;
  const std::uint32_t tokens = closing_->tokens_to_end(known.matcher, state);
  known.mask_bytes += 48;
  known.tokens_to_end.emplace(state, tokens);
  return tokens;
}

// Like made(), restricted to tokens after which the reply can end within `left` more tokens. Also returns how
// many tokens the worst excluded token would need.
MaskMaker::Closable MaskMaker::closable(Known& known, Matcher::State state, std::size_t left) const {
  Matcher& matcher = known.matcher;
  Closable found{.mask = std::make_shared<TokenMask>(vocabulary_->size()), .worst = 0};
  const auto fits = [&](std::uint32_t tokens) {
    found.worst = std::max(found.worst, tokens);
    return tokens <= left;
  };
  const auto nodes = vocabulary_->nodes();
  const auto walk = [&](const auto& self, std::uint32_t parent, Matcher::State at, bool has_plain) -> void {
    if (!has_plain && matcher.is_free(at)) {
      const std::uint32_t here = tokens_to_end(known, at);
      if (fits(here == Closing::kNever ? here : here + 3)) {  // tokens to complete a character
        const auto plain = vocabulary_->plain_tokens();
        for (std::uint32_t i = nodes[parent].plain; i < nodes[parent].plain_end; ++i)
          found.mask->allow(plain[i]);
      }
      has_plain = true;
    }
    for (std::uint32_t child = parent + 1; child < nodes[parent].end; child = nodes[child].end) {
      const Vocabulary::TrieNode& node = nodes[child];
      budget_.charge();
      if (has_plain && node.only_plain) return;
      const Matcher::State next = matcher.step(at, node.byte);
      if (next == Matcher::kDead) continue;
      if (node.token >= 0 && fits(tokens_to_end(known, next))) {
        for (TokenId id = node.token; id >= 0; id = vocabulary_->same_as(id)) found.mask->allow(id);
      }
      if (node.end > child + 1) self(self, child, next, has_plain);
    }
  };
  const auto walk_from = [&](std::uint32_t node, Matcher::State at) {
    if (nodes[node].token >= 0 && fits(tokens_to_end(known, at))) {
      for (TokenId id = nodes[node].token; id >= 0; id = vocabulary_->same_as(id)) found.mask->allow(id);
    }
    if (nodes[node].end > node + 1) walk(walk, node, at, false);
  };
  if (!nodes.empty()) {
    const std::vector<Matcher::Within> strings = matcher.within(state);
    for (const Matcher::Within& one : strings) {
      const bool stays = fits(closing_->tokens_within(matcher, state, one));
      const ContentMask& content = known.contents.of(one.rule, one.location.a, one.location.b);
      for (std::size_t i = 0; stays && i < found.mask->bits.size(); ++i) {
        found.mask->bits[i] |= content.tokens.bits[i];
      }
      std::uint32_t label = 0;
      Matcher::State after = Matcher::kDead;
      for (const ContentMask::Leave& leave : content.leaves) {
        if (leave.label != label) after = matcher.left(one.location, label = leave.label);
        if (after != Matcher::kDead) walk_from(leave.node, after);
      }
      for (const ContentMask::Branch& branch : content.branches) {
        const Matcher::State before = matcher.moved(one.location, branch.a, branch.b);
        const Matcher::State at = matcher.step(before, nodes[branch.node].byte);
        if (at != Matcher::kDead) walk_from(branch.node, at);
      }
    }
    const Matcher::State rest = strings.empty() ? state : matcher.without(state, strings);
    if (rest != Matcher::kDead) walk(walk, 0, rest, false);
  }
  if (matcher.takes_special(state)) {
    for (const TokenId id : vocabulary_->specials()) {
      const Matcher::State next = matcher.step_special(state, vocabulary_->token(id).bytes);
      if (next != Matcher::kDead && fits(tokens_to_end(known, next))) found.mask->allow(id);
    }
  }
  return found;
}

// Restricts the mask near the limit. Unchanged if that exceeds the budget; the reply may be cut off then.
SharedMask ReplyConstraint::within_limit(SharedMask mask) {
  try {
    return find_within_limit(mask);
  } catch (const GrammarError&) {
    gave_up_ = true;
    maker_->budget_.begin({});
    maker_->let_go();
    return mask;
  }
}

SharedMask ReplyConstraint::find_within_limit(const SharedMask& mask) {
  if (max_tokens_ <= tokens_.size() || mask->ends || gave_up_) return mask;
  const std::size_t left = max_tokens_ - tokens_.size();
  if (closing_) return closing_mask(left, mask);
  if (left > Closing::kMaxDistance) return mask;
  MaskMaker& maker = *maker_;
  if (maker.closing_ == nullptr)
    maker.closing_ = std::make_unique<Closing>(*maker.program_, *maker.vocabulary_);
  MaskMaker::Known& known = *maker.known_;
  const std::uint32_t needed = maker.tokens_to_end(known, state_);
  if (needed > left || left > needed + maker.closing_->window()) return mask;
  if (needed < left) {
    const auto worst = known.worst_next.find(state_);
    if (worst != known.worst_next.end() && worst->second < left) return mask;
    MaskMaker::Closable closable = maker.closable(known, state_, left - 1);
    known.mask_bytes += 48;
    known.worst_next[state_] = closable.worst;
    if (closable.worst < left) return mask;
    // Long tokens are not in the trie and are left out.
    TokenMask& fewer = *closable.mask;
    if (known.matcher.accepts(state_)) {
      for (const TokenId id : maker.vocabulary_->stops()) fewer.allow(id);
    }
    fewer.count = 0;
    for (std::size_t i = 0; i < fewer.bits.size(); ++i) {
      fewer.bits[i] &= mask->bits[i];
      fewer.count += static_cast<std::uint32_t>(std::popcount(fewer.bits[i]));
    }
    if (fewer.count > 0) {
      // If the reply could end here anyway, nothing of it is lost.
      narrowed_ = narrowed_ || (needed > 0 && fewer.count < mask->count);
      return std::move(closable.mask);
    }
  }
  auto text = maker.closing_->text(known.matcher, state_);
  if (!text || !known.matcher.accepts(known.matcher.step(state_, text->ending.text))) {
    gave_up_ = true;
    return mask;
  }
  closing_ = std::make_shared<const ClosingText>(std::move(*text));
  closed_at_ = tokens_.size();
  return closing_mask(left, mask);
}

// Returns `mask` if the reply left the closing text, as when reasoning is ended from outside.
SharedMask ReplyConstraint::closing_mask(std::size_t left, const SharedMask& mask) {
  const std::string_view text = closing_->ending.text;
  std::size_t offset = 0;
  for (std::size_t i = closed_at_; i < tokens_.size(); ++i) {
    const std::string& bytes = maker_->vocabulary_->token(tokens_[i]).bytes;
    gave_up_ = gave_up_ || text.substr(offset, bytes.size()) != bytes;
    if (gave_up_) return mask;
    offset += bytes.size();
  }
  SharedMask closing = maker_->closing_->mask(*closing_, offset, left);
  if (closing->count == 0 && !closing->ends) {
    gave_up_ = true;
    return mask;
  }
  narrowed_ = true;
  return closing;
}

// Like within_limit(), but does no work; null: work is needed.
SharedMask ReplyConstraint::within_limit_if_known(SharedMask mask) const {
  if (max_tokens_ <= tokens_.size() || mask->ends || gave_up_) return mask;
  const std::size_t left = max_tokens_ - tokens_.size();
  if (left > Closing::kMaxDistance) return mask;
  const MaskMaker& maker = *maker_;
  if (closing_ || maker.closing_ == nullptr) return nullptr;
  const MaskMaker::Known& known = *maker.known_;
  const auto needed = known.tokens_to_end.find(state_);
  if (needed == known.tokens_to_end.end()) return nullptr;
  if (needed->second > left || left > needed->second + maker.closing_->window()) return mask;
  const auto worst = known.worst_next.find(state_);
  const bool fits = needed->second < left && worst != known.worst_next.end() && worst->second < left;
  return fits ? mask : nullptr;
}

}  // namespace reprise::protocol::grammar
