// Texts by which a reply ends, from the places of a state.

#include <algorithm>
#include <string_view>

#include "protocol/grammar/json_phase.h"
#include "protocol/grammar/matcher.h"

namespace reprise::protocol::grammar {
namespace {

constexpr std::size_t kMaxPlaces = 256;    // of a state; with more of them no ending is looked for
constexpr std::size_t kMaxCharBytes = 12;  // of an escaped pair of surrogates

// Bytes that may go on in a character, those of short ones first.
constexpr std::string_view kInCharacter = "n\"\\/0123456789abcdefDCu";

}  // namespace

std::optional<Ending> Matcher::ending(State state, const Endings& endings) {
  if (!endings.are_known()) return std::nullopt;
  std::string begun;
  for (std::size_t hops = 0; hops <= kMaxCharBytes && state != kDead; ++hops) {
    if (accepts(state)) return Ending{.text = std::move(begun)};
    const std::vector<Place> places = states_[state].places;
    if (places.size() > kMaxPlaces) return std::nullopt;
    // Of two of the same length the lesser one: the order of places depends on what was met before.
    std::optional<Ending> best;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].b != 0) continue;
      Ending one{.text = begun};
      try {
        endings.begin_one();
        if (!write_place(places[i], endings, one)) continue;
      } catch (const GrammarError&) {
        continue;
      }
      if (one.text.size() > Endings::kMaxBytes) continue;
      const bool better = !best || one.text.size() < best->text.size() ||
                          (one.text.size() == best->text.size() && one.text < best->text);
      if (better) best = std::move(one);
    }
    if (best) return best;
    // All are within a character: it becomes whole.
    State next = kDead;
    std::uint8_t byte = 0;
    for (std::uint32_t i = 0; i < kInCharacter.size() + 0x40 && next == kDead; ++i) {
      byte = i < kInCharacter.size() ? static_cast<std::uint8_t>(kInCharacter[i])
                                     : static_cast<std::uint8_t>(0x80 + (i - kInCharacter.size()));
      next = step(state, byte);
    }
    begun += static_cast<char>(byte);
    state = next;
  }
  return std::nullopt;
}

bool Matcher::write_place(const Place& place, const Endings& endings, Ending& out) const {
  const Node& node = program_->nodes[place.node];
  const auto add_mark = [&](const std::string& text) {
    if (place.a == 0) {
      out.marks.push_back({.begin = static_cast<std::uint32_t>(out.text.size()),
                           .bytes = static_cast<std::uint32_t>(text.size())});
    }
    out.text += text.substr(place.a);
  };
  switch (node.op) {
    case Op::kLiteral:
      out.text += program_->texts[node.arg].substr(place.a);
      break;
    case Op::kMark:
      add_mark(program_->texts[node.arg]);
      break;
    case Op::kText:
      add_mark(program_->free_texts[node.arg].mark);
      break;
    case Op::kDfa:
      if (!endings.write_chars(node.arg, place.a, false, out.text)) return false;
      break;
    case Op::kEmbedded: {
      const EmbeddedSpec& spec = program_->embedded[node.arg];
      if (spec.mark != kNowhere || !endings.write_chars(spec.dfa, place.a, true, out.text)) return false;
      break;
    }
    case Op::kString: {
      const JsonStringSpec& spec = program_->strings[node.arg];
      if (place.phase == 0) return endings.write(place.node, out) && write_frames(place.stack, endings, out);
      if (spec.dfa == kNowhere) {
        const std::uint32_t missing = spec.least - std::min(spec.least, place.a);
        if (missing > Endings::kMaxBytes) return false;
        out.text.append(missing, 'a');
      } else if (!endings.write_chars(spec.dfa, place.a, true, out.text)) {
        return false;
      }
      out.text += '"';
      break;
    }
    case Op::kObject:
      return write_object(place, endings, out);
    case Op::kArray:
      return write_array(place, endings, out);
    default:
      return false;
  }
  return endings.write(node.next, out) && write_frames(place.stack, endings, out);
}

// What the values and rules that are open come to, the innermost first.
bool Matcher::write_frames(std::uint32_t stack, const Endings& endings, Ending& out) const {
  const JsonSpace& space = program_->space;
  while (stack != 0) {
    if (out.text.size() > Endings::kMaxBytes) return false;
    const Frame& top = frames_[stack];
    const Node& node = program_->nodes[top.node];
    switch (node.op) {
      case Op::kCall:
        break;
      case Op::kRepeat: {
        const RepeatSpec& spec = program_->repeats[node.arg];
        if (spec.least > Endings::kMaxBytes) return false;
        for (std::uint32_t done = top.value + 1; done < spec.least; ++done) {
          if (!endings.write(spec.body, out)) return false;
        }
        break;
      }
      case Op::kObject:
        if (!endings.write_space(space.around_brackets, out.text)) return false;
        if (!write_rest(node.arg, top.value, endings, out)) return false;
        break;
      case Op::kArray:
        if (!endings.write_space(space.around_brackets, out.text)) return false;
        if (!endings.write_items(program_->arrays[node.arg], top.value + 1, true, out)) return false;
        break;
      default:
        return false;
    }
    if (!endings.write(node.next, out)) return false;
    stack = top.below;
  }
  return true;
}

// Members that must come yet after another one, and the brace.
bool Matcher::write_rest(std::uint32_t object, std::uint32_t members, const Endings& endings,
                         Ending& out) const {
  std::vector<std::uint32_t> labels;
  const Members& so_far = members_[members];
  return endings.members_to_come(object, so_far.seen, so_far.count, 0, labels) &&
         endings.write_members(object, labels, true, out);
}

bool Matcher::write_object(const Place& place, const Endings& endings, Ending& out) const {
  const Node& node = program_->nodes[place.node];
  const Phase phase = phase_of(place.phase);
  if (phase == Phase::kOpen) return endings.write(place.node, out) && write_frames(place.stack, endings, out);
  const Frame& top = frames_[place.stack];
  const Members& members = members_[top.value];
  std::vector<std::uint32_t> labels;
  bool written = false;
  switch (phase) {
    case Phase::kOpen:
      break;
    case Phase::kFirst:
      written = endings.write_space(space_of(place.phase), out.text) &&
                endings.members_to_come(node.arg, members.seen, members.count, 0, labels) &&
                endings.write_members(node.arg, labels, false, out);
      break;
    case Phase::kAfter:
      written = endings.write_space(space_of(place.phase), out.text) &&
                write_rest(node.arg, top.value, endings, out);
      break;
    case Phase::kNext:
      written = endings.write_space(space_of(place.phase), out.text) &&
                members_after_comma(node.arg, members, endings, labels) &&
                endings.write_members(node.arg, labels, false, out);
      break;
    case Phase::kKey:
      written = write_key(place, endings, out);
      break;
    case Phase::kColon:
    case Phase::kValue:
      written = (phase == Phase::kColon ? endings.write_after_key(node.arg, place.a, out)
                                        : endings.write_space(space_of(place.phase), out.text) &&
                                              endings.write_value(node.arg, place.a, out)) &&
                endings.write_space(program_->space.around_brackets, out.text) &&
                write_rest(node.arg, top.value, endings, out);
      break;
  }
  return written && endings.write(node.next, out) && write_frames(top.below, endings, out);
}

// At least one.
bool Matcher::members_after_comma(std::uint32_t object, const Members& members, const Endings& endings,
                                  std::vector<std::uint32_t>& labels) const {
  if (!endings.members_to_come(object, members.seen, members.count, 0, labels)) return false;
  if (!labels.empty()) return true;
  const ObjectSpec& spec = program_->objects[object];
  const auto properties = static_cast<std::uint32_t>(spec.properties.size());
  std::uint32_t best = 0;
  std::uint32_t least = Endings::kNone;
  for (std::uint32_t label = 1; label <= properties + spec.others.size(); ++label) {
    const std::uint32_t cost = endings.member_cost(object, label);
    if (cost >= least) continue;
    if (label <= properties ? !can_add(spec, members, label - 1) : !can_add_other(spec, members)) continue;
    least = cost;
    best = label;
  }
  return best != 0 && endings.members_to_come(object, members.seen, members.count, best, labels);
}

// The rest of a key, its value, the other members that must come, and the brace.
bool Matcher::write_key(const Place& place, const Endings& endings, Ending& out) const {
  constexpr std::size_t kMaxPaths = 16;  // the nearest ones; a walk that is made for each state
  constexpr std::size_t kMaxStates = 4096;
  const std::uint32_t object = program_->nodes[place.node].arg;
  const ObjectSpec& spec = program_->objects[object];
  const Members& members = members_[frames_[place.stack].value];
  const auto properties = static_cast<std::uint32_t>(spec.properties.size());
  const auto is_usable = [&](std::uint32_t label) {
    if (endings.member_cost(object, label) == Endings::kNone) return false;
    return label <= properties ? can_add(spec, members, label - 1) : can_add_other(spec, members);
  };
  std::optional<Endings::Path> best;
  std::uint64_t least = 0;
  for (Endings::Path& path : endings.paths(spec.keys, place.a, is_usable, kMaxPaths, kMaxStates)) {
    // A required one is no more than what must come anyway.
    const bool required = path.label <= properties && spec.properties[path.label - 1].required;
    const std::uint64_t cost = path.text.size() + (required ? 0 : endings.member_cost(object, path.label));
    if (best && cost >= least) continue;
    least = cost;
    best = std::move(path);
  }
  std::vector<std::uint32_t> labels;
  if (!best || !endings.members_to_come(object, members.seen, members.count, best->label, labels))
    return false;
  out.text += best->text + '"';
  if (!endings.write_after_key(object, best->label, out)) return false;
  if (!endings.write_space(program_->space.around_brackets, out.text)) return false;
  labels.erase(labels.begin());
  return endings.write_members(object, labels, true, out);
}

bool Matcher::write_array(const Place& place, const Endings& endings, Ending& out) const {
  const Node& node = program_->nodes[place.node];
  const ArraySpec& spec = program_->arrays[node.arg];
  const Phase phase = phase_of(place.phase);
  if (phase == Phase::kOpen) return endings.write(place.node, out) && write_frames(place.stack, endings, out);
  const Frame& top = frames_[place.stack];
  if (!endings.write_space(space_of(place.phase), out.text)) return false;
  std::uint32_t done = top.value;
  if (phase == Phase::kNext) {  // an item must follow the comma
    const NodeId item = spec.item(done);
    if (item == kNowhere || !endings.write(item, out) ||
        !endings.write_space(program_->space.around_brackets, out.text)) {
      return false;
    }
    ++done;
  }
  return endings.write_items(spec, done, phase != Phase::kFirst, out) && endings.write(node.next, out) &&
         write_frames(top.below, endings, out);
}

}  // namespace reprise::protocol::grammar
