// Frames survive the wire. Truncated, padded, forged and random bytes do not.
#include "net/wire.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <concepts>
#include <limits>
#include <tuple>

#include "base/fields.hpp"
#include "base/rng.hpp"
#include "net/bounded_archive.hpp"

namespace gv {
namespace {

using Bytes = std::vector<std::byte>;

constexpr float marker = 0.625F;  // Tests find its bits in a frame and replace them.
constexpr ConservationChecksum checksum = {1, -2, 3, -4,
                                           5, -6, 7, std::numeric_limits<std::int64_t>::min()};

Member member(std::uint64_t n) {
  Member m;
  m.id = PeerId{0x1122334455667788 + n};
  m.accuser = PeerId{0x99 + n};
  m.name = "node-" + std::to_string(n);
  m.address = "10.0.0.1:7400";
  m.incarnation = 3 + n;
  m.state = MemberState::suspect;
  m.layout_hash = 0xabcdef;
  m.version = 5 + n;
  m.progress = {77, 12.5F, Phase::training, Trial{0.02F, 0.9F, 0.31F}};
  m.signature.fill(static_cast<std::uint8_t>(n + 1));
  return m;
}

Generation generation(const GenerationId& id, const ModelVersion& version) {
  return {.id = id,
          .order = {PeerId{1}, PeerId{2}},
          .sources = {PeerId{1}, PeerId{1}},
          .shares = {16, 48},
          .version = version,
          .ends = true,
          .algorithm = 2,
          .slowest_from = PeerId{2},
          .slowest = {.to = PeerId{1}, .latency_s = 1e-3F, .bytes_per_second = 5e6F},
          .assignments = {{.stage = 4, .carrier = PeerId{1}, .source = PeerId{2}},
                          {.stage = 5, .carrier = PeerId{2}, .source = PeerId{2}}},
          .hosts = {11, 12}};
}

Progress progress_with_work() {
  const LedgerEntry ledger{1, {{2, 3}}, {{{5, 6}, true}}};
  return {1234567,
          marker,
          Phase::done,
          {},
          WorkDone{.samples = 7,
                   .data = 8,
                   .counted = 9,
                   .ran_ms = 10,
                   .ledger = ledger,
                   .verdict = TargetVerdict{3, true}}};
}

LaneInvite full_invite() {
  LaneInvite invite;
  invite.lane = 42;
  invite.token.fill(0x5a);
  invite.address = "host:7401";
  invite.unix_path = "/run/grapevine/lane";
  invite.host = 99;
  invite.previous = 7;
  invite.answer = invite.refused = true;
  return invite;
}

Certificates full_certificates() {
  const Certificate certificate{.swarm = {12},
                                .issuer = {13},
                                .key = {14},
                                .name = "laptop",
                                .number = 15,
                                .may_invite = true,
                                .expires_s = 16,
                                .signature = {17}};
  const Revocation revocation{.swarm = {18},
                              .issuer = {19},
                              .key = {20},
                              .signed_s = 21,
                              .chain = {certificate},
                              .signature = {22}};
  return {.held = {11}, .certificates = {certificate}, .revocations = {revocation}};
}

RelayStep full_step() {
  RelayStep step{.kind = RelayStep::Kind::offer,
                 .other = PeerId{23},
                 .stream = 24,
                 .token = {},
                 .address = "host:7402"};
  step.token.fill(0xa5);
  return step;
}

JoinAnswer full_answer() {
  const Certificates held = full_certificates();
  return {.refusal = "no",
          .certificates = held.certificates,
          .revocations = held.revocations,
          .config = {"[run]", "steps = 5"},
          .addresses = {"b@192.0.2.1:7000"}};
}

ExamRequest full_exam_request() {
  return {.number = 25,
          .control_port = 7000,
          .lane_port = 7001,
          .wants_echo = true,
          .wants_ledger = true};
}

ExamAnswer full_exam_answer() {
  return {.number = 25,
          .refusal = "no",
          .wall_us = 26,
          .seen_as = "192.0.2.1",
          .control_port = DialOutcome::connected,
          .lane_port = DialOutcome::silent,
          .lanes = "192.0.2.2:7001",
          .lane = 27,
          .token = {28},
          .ledger = {"{\"work\":", "{}}"}};
}

/// One frame of every kind with every field set. Adjacent fields of one type are named, so that
/// swapping them fails to compile or changes the bytes.
std::vector<Frame> one_of_each() {
  const PeerId owner{0xfedcba9876543210};
  const TransferId id{owner, 0x0102030405060708, 9, TransferKind::mixing, 0x12345678};
  const Progress progress = progress_with_work();
  const std::vector<Member> members{member(1), member(2)};
  const GenerationId ballot{21, 0x90807060, PeerId{0x1122334455667788}};
  const ModelVersion version{.step = 31, .samples = 32, .lineage = 0x8877665544332211};
  return {
      Hello{"ada", "host:7400", 0x1234, {{"model", "mlp"}, {"codec", "f32"}}, true},
      full_invite(),
      full_step(),
      Message(Ping{1, progress, members, 8}),
      Message(PingRequest{2, PeerId{7}, members, 9}),
      Message(Ack{3, PeerId{8}, progress, members}),
      Message(Nack{4, members}),
      Message(PushPull{true, members}),
      Message(Offer{.id = id,
                    .round = 5,
                    .layout_hash = 6,
                    .elements = 7,
                    .codec = 1,
                    .alpha = marker,
                    .clip_radius = 2.5F,
                    .step = 8,
                    .checksum = checksum}),
      Message(
          Accept{.id = id, .alpha = marker, .clip_radius = 2.5F, .step = 8, .checksum = checksum}),
      Message(Refuse{id, Reason::impossible}),
      Message(Ready{id}),
      Message(Commit{id}),
      Message(Query{id}),
      Message(Abort{id, Reason::peer_gone}),
      Message(Resume{id, 1 << 20}),
      Message(StateRequest{.id = id, .layout_hash = 11}),
      Message(
          TransferAccepted{.id = id, .layout_hash = 11, .elements = 12, .version = {.step = 13}}),
      Message(Propose{ballot}),
      Message(
          Promise{ballot,
                  {.version = version,
                   .speed = marker,
                   .links = {{.to = PeerId{1}, .latency_s = 1e-4F, .bytes_per_second = 1e9F},
                             {.to = PeerId{3}}},
                   .holdings = {{.stage = 2, .carried = true, .version = version}, {.stage = 3}},
                   .leaves = true,
                   .ends = true,
                   .host = 16}}),
      Message(Preempted{ballot}),
      Message(Install{generation(ballot, version), {1, 2, 3}}),
      Message(EndGeneration{ballot, {PeerId{5}, PeerId{6}}}),
      Message(Refusals{{PeerId{5}, PeerId{6}}}),
      Message(StatusRequest{ballot}),
      Message(StatusReply{ballot, 77, true}),
      Message(ProbeAck{id}),
      Message(Complete{ballot, 8, true}),
      Message(Audit{.ballot = ballot, .step = 64, .fingerprint = 0x0123456789abcdef}),
      Message(SketchRequest{.id = id, .seed = 14, .layout_hash = 15}),
      Message(SketchReply{.id = id, .step = 16, .spread = 2.5F, .values = {marker, -1.5F}}),
      Message(Decided{{.ballot = ballot, .digest = {4, 5}, .signature = {6}}}),
      Message(Equivocation{{.ballot = ballot, .digest = {7}, .signature = {8}},
                           {.ballot = ballot, .digest = {9}, .signature = {10}}}),
      Message(full_certificates()),
      JoinRequest{.key = {23}, .name = "laptop", .proof = {24}},
      full_answer(),
      full_exam_request(),
      full_exam_answer(),
      LinkCheck{.answer = true},
  };
}

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

/// The frame with the bits of `marker` replaced by those of `value`.
Bytes with_float(Bytes bytes, float value) {
  const auto bits_of = [](float f) {
    const auto bits = std::bit_cast<std::uint32_t>(f);
    Bytes out;
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(bits >> (8 * i) & 0xff));
    return out;
  };
  const Bytes from = bits_of(marker), to = bits_of(value);
  const auto found = std::search(bytes.begin(), bytes.end(), from.begin(), from.end());
  REQUIRE(found != bytes.end());
  std::ranges::copy(to, found);
  return bytes;
}

/// True if all fields of the two messages, and of the structs in them, are equal.
template <class T>
bool is_same(const T& a, const T& b) {
  if constexpr (requires { a.index(); }) {
    const auto inside_equal = [&]<class U>(const U& of_a) { return is_same(of_a, std::get<U>(b)); };
    return a.index() == b.index() && std::visit(inside_equal, a);
  } else if constexpr (std::equality_comparable<T>) {
    return a == b;
  } else {
    const auto all_equal = [&](const auto&... of_a) {
      return std::apply([&](const auto&... of_b) { return (is_same(of_a, of_b) && ...); },
                        fields_of(b));
    };
    return std::apply(all_equal, fields_of(a));
  }
}

bool mentions(const Decoded& decoded, const std::string& text) {
  return !decoded.frame && decoded.problem.find(text) != std::string::npos;
}

/// True if the bytes decode to a frame that encodes back to them, or to a problem.
bool sound(const Bytes& bytes) {
  const Decoded decoded = decode(bytes);
  if (!decoded.frame) return !decoded.problem.empty();
  return decoded.problem.empty() && encode(*decoded.frame) == bytes;
}

}  // namespace

TEST_CASE("every kind of frame survives the wire", "[unit]") {
  const auto frames = one_of_each();
  REQUIRE(frames.size() == 8 + std::variant_size_v<MessageVariant>);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    INFO("frame " << i);
    const Bytes bytes = encode(frames[i]);
    const Decoded decoded = decode(bytes);
    REQUIRE(decoded.problem == "");
    REQUIRE(decoded.frame);
    CHECK(decoded.frame->index() == frames[i].index());
    CHECK(encode(*decoded.frame) == bytes);
    CHECK(is_same(*decoded.frame, frames[i]));
  }
}

TEST_CASE("the bytes of a frame do not change by accident", "[unit]") {
  const TransferId id = state_id(PeerId{0x0807060504030201}, 2, 3, 9);
  CHECK(encode(Message(Abort{id, Reason::stale})) == bytes_of({7, 27, 1,  // Version, kind; a state.
                                                               1, 2,  3, 4, 5, 6, 7, 8,  // Owner.
                                                               2, 0,  0, 0, 0, 0, 0, 0,  // Session.
                                                               3, 0,  0, 0, 0, 0, 0, 0,  // Number.
                                                               9, 0,  0, 0,              // Stage.
                                                               6}));
  CHECK(encode(Hello{"ab", "", 5, {{"x", "y"}}, true}) ==
        bytes_of({7, 1,                        // Version, kind.
                  2, 0, 0, 0, 'a', 'b',        // Name.
                  0, 0, 0, 0,                  // Address.
                  5, 0, 0, 0, 0,   0,   0, 0,  // Session.
                  1, 0, 0, 0,                  // One agreement.
                  1, 0, 0, 0, 'x', 1,   0, 0, 0, 'y', 1}));

  // All kinds of frames together. If the hash changes, the wire format has changed. Once a release
  // uses this version, raise wire_version as well.
  std::string all;
  for (const Frame& frame : one_of_each()) {
    for (const std::byte byte : encode(frame)) all += std::to_integer<char>(byte);
  }
  CHECK(stable_hash(all) == 0xf2a04ac2280c36d9ULL);
}

TEST_CASE("every truncation of every kind is refused", "[unit]") {
  for (const Frame& frame : one_of_each()) {
    const Bytes bytes = encode(frame);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      // A separate copy, so that the sanitizers notice reads past the end.
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
      const Decoded decoded = decode(cut);
      INFO("kind " << std::to_integer<int>(bytes[1]) << " cut to " << length);
      REQUIRE_FALSE(decoded.frame);
      REQUIRE_FALSE(decoded.problem.empty());
    }
  }
}

TEST_CASE("a byte too many is refused", "[unit]") {
  for (const Frame& frame : one_of_each()) {
    Bytes bytes = encode(frame);
    bytes.push_back(std::byte{0});
    CHECK(mentions(decode(bytes), "1 bytes after its end"));
  }
}

TEST_CASE("other versions and unknown kinds are refused by number", "[unit]") {
  for (const int version : {0, 1, 255}) {
    Bytes bytes = encode(Message(Ready{}));
    bytes[0] = static_cast<std::byte>(version);
    CHECK(mentions(decode(bytes), "wire version " + std::to_string(version) + ","));
  }
  for (int kind = 0; kind < 256; ++kind) {
    if ((kind >= 1 && kind <= 8) ||
        (kind >= 16 && kind < 16 + static_cast<int>(std::variant_size_v<MessageVariant>)))
      continue;
    Bytes bytes = encode(Message(Ready{}));
    bytes[1] = static_cast<std::byte>(kind);
    CHECK(mentions(decode(bytes), "unknown kind " + std::to_string(kind)));
  }
}

TEST_CASE("transfers of an unknown kind are refused", "[unit]") {
  for (int kind = static_cast<int>(last_value(TransferKind{})) + 1; kind < 256; ++kind) {
    Bytes bytes = encode(Message(Ready{}));
    bytes[2] = static_cast<std::byte>(kind);
    CHECK(mentions(decode(bytes), std::to_string(kind) + " is not a known choice"));
  }
}

/// An element type that counts how many elements have been made.
struct Counted {
  static inline int made = 0;
  Counted() { ++made; }
};

template <BoundedArchive Archive>
void serialize(Archive& archive, Counted&) {
  std::uint8_t nothing = 0;
  archive(nothing);
}

TEST_CASE("size bombs are refused without allocation", "[unit]") {
  const auto read_counted = [](Bytes bytes) {
    BoundedInputArchive archive(bytes);
    std::vector<Counted> elements;
    Counted::made = 0;
    archive(elements);
  };
  CHECK_THROWS_AS(read_counted(bytes_of({0xff, 0xff, 0xff, 0xff, 0, 0})), ArchiveError);
  CHECK(Counted::made == 0);
  CHECK_THROWS_AS(read_counted(bytes_of({0, 4, 0, 0, 0, 0})), ArchiveError);
  CHECK(Counted::made == 0);
  CHECK_THROWS_AS(read_counted(bytes_of({3, 0, 0, 0, 0, 0})), ArchiveError);
  CHECK(Counted::made == 0);
  CHECK_NOTHROW(read_counted(bytes_of({2, 0, 0, 0, 0, 0})));
  CHECK(Counted::made == 2);

  // Frames with the same fault: a nack (kind 19) and a hello (kind 1), each with a false length.
  CHECK(mentions(decode(bytes_of({7, 19, 4, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})),
                 "4294967295 elements is over the limit of 1024"));
  CHECK(mentions(decode(bytes_of({7, 19, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0})),
                 "needs 1024 more bytes where 0 are left"));
  CHECK(mentions(decode(bytes_of({7, 1, 0xff, 0xff, 0xff, 0x7f})),
                 "2147483647 bytes is over the limit of 4096"));
  CHECK(
      mentions(decode(bytes_of({7, 1, 0, 0x10, 0, 0})), "needs 4096 more bytes where 0 are left"));
  CHECK(
      mentions(decode(bytes_of({7, 1, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0})),
               "needs 9 more bytes where 0 are left"));
  CHECK(mentions(decode(Bytes(frame_bytes_max + 1, std::byte{1})), "over the limit of 65536"));
}

TEST_CASE("limits of strings and lists hold on both sides", "[unit]") {
  Hello hello{std::string(archive_string_bytes_max, 'x'), "", 1, {}, false};
  CHECK(decode(encode(hello)).frame);
  hello.name += 'x';
  CHECK_THROWS_AS(encode(hello), ArchiveError);

  hello.name = "ada";
  hello.agreement.resize(archive_elements_max);
  CHECK(decode(encode(hello)).frame);
  hello.agreement.resize(archive_elements_max + 1);
  CHECK_THROWS_AS(encode(hello), ArchiveError);

  // Every part is within its limit, but the whole frame is not.
  hello.agreement.assign(17, {std::string(archive_string_bytes_max, 'x'), ""});
  CHECK_THROWS_AS(encode(hello), ArchiveError);

  // Tests the reader's own limit, with enough bytes for a name of 4097 bytes.
  Bytes bytes = bytes_of({7, 1, 1, 0x10, 0, 0});
  bytes.resize(8192, std::byte{'x'});
  CHECK(mentions(decode(bytes), "over the limit of 4096"));
}

TEST_CASE("no answer to a ballot carries more links or stages than others take", "[unit]") {
  Answer answer;
  answer.links.resize(link_reports_max);
  Bytes bytes = encode(Message(Promise{{}, answer}));
  CHECK(decode(bytes).frame);
  answer.links.resize(link_reports_max + 1);
  CHECK_THROWS_AS(encode(Message(Promise{{}, answer})), ArchiveError);
  answer.links.clear();
  answer.holdings.resize(stage_holdings_max);
  CHECK(decode(encode(Message(Promise{{}, answer}))).frame);
  answer.holdings.resize(stage_holdings_max + 1);
  CHECK_THROWS_AS(encode(Message(Promise{{}, answer})), ArchiveError);
  // Tests the reader's own limit with enough bytes. The count follows ballot, version and speed.
  const std::size_t count = 2 + 20 + 24 + 4;
  REQUIRE(bytes[count] == std::byte{link_reports_max});
  bytes[count] = std::byte{link_reports_max + 1};
  bytes.resize(bytes.size() + 16);
  CHECK(mentions(decode(bytes), "65 links are over the limit of 64"));
}

TEST_CASE("a bool that is neither 0 nor 1 is refused", "[unit]") {
  Bytes bytes = encode(Hello{"ada", "", 1, {}, true});
  bytes.back() = std::byte{2};
  CHECK(mentions(decode(bytes), "not 0 or 1"));
  bytes = encode(Message(PushPull{true, {}}));
  bytes[2] = std::byte{255};
  CHECK(mentions(decode(bytes), "not 0 or 1"));
}

TEST_CASE("an enumeration out of range is refused", "[unit]") {
  for (int value = 0; value < 256; ++value) {
    Bytes refuse = encode(Message(Refuse{}));
    refuse.back() = static_cast<std::byte>(value);
    CHECK(decode(refuse).frame.has_value() == (value <= static_cast<int>(Reason::doubtful)));

    // A member ends with state, accuser (8 bytes), layout hash (8), version (8), step (8), rate
    // (4), phase, a flag each for trial and work, and the signature (64).
    Bytes nack = encode(Message(Nack{1, {Member{}}}));
    const std::size_t end = nack.size() - 64;
    nack[end - 3] = static_cast<std::byte>(value);
    CHECK(decode(nack).frame.has_value() == (value <= static_cast<int>(Phase::done)));
    nack[end - 3] = std::byte{0};
    nack[end - 40] = static_cast<std::byte>(value);
    CHECK(decode(nack).frame.has_value() == (value <= static_cast<int>(MemberState::left)));
  }
}

TEST_CASE("numbers in reports of work take as many bytes as they need, and no more", "[unit]") {
  const auto frame_of = [](const WorkDone& work) {
    return encode(Message(Ping{1, {0, 0, Phase::training, {}, work}, {}}));
  };
  constexpr int at = 25;  // Samples come after sequence, step, rate, phase and two flags.
  using Sized = std::pair<std::uint64_t, std::size_t>;
  for (const auto& [samples, bytes] : {Sized(127, 1), Sized(128, 2), Sized(~0ULL, 10)}) {
    const Bytes frame = frame_of({.samples = samples});
    CHECK(frame.size() == frame_of({}).size() + bytes - 1);
    CHECK((decode(frame).frame && sound(frame)));
  }
  Bytes frame = frame_of({.samples = 300});
  CHECK(frame[at] == std::byte{0xac});
  CHECK(frame[at + 1] == std::byte{0x02});
  frame = frame_of({.samples = 1});
  frame[at] = std::byte{0x81};
  frame.insert(frame.begin() + at + 1, std::byte{0});
  CHECK(mentions(decode(frame), "longer than it has to be"));
  frame = frame_of({.samples = ~0ULL});
  frame[at + 9] = std::byte{2};
  CHECK(mentions(decode(frame), "more than 64 bits"));

  // The length of the list of done chunks follows three numbers, a flag and the field `whole`.
  frame = frame_of({.ledger = LedgerEntry()});
  frame[at + 6] = std::byte{100};
  CHECK(mentions(decode(frame), "needs 100 more bytes where 14 are left"));
  frame[at + 6] = std::byte{0x81};
  frame.insert(frame.begin() + at + 7, std::byte{0x08});
  CHECK(mentions(decode(frame), "1025 elements is over the limit of 1024"));
}

TEST_CASE("a settings revision longer than others take is refused on both sides", "[unit]") {
  const SettingsRevision longest{.number = 3, .settings = std::string(revision_bytes_max, 'x')};
  const auto read = decode(encode(Message(Promise{{}, {.revision = longest}})));
  REQUIRE(read.frame);
  CHECK(std::get<Promise>(std::get<Message>(*read.frame)).answer.revision == longest);
  SettingsRevision longer = longest;
  longer.settings += 'x';
  CHECK_THROWS_AS(encode(Message(Install{{.revision = longer}})), ArchiveError);
}

TEST_CASE("hyper-parameters that nobody can train with are refused on both sides", "[unit]") {
  using Limits = std::numeric_limits<float>;
  const auto with = [](const Trial& trial) {
    return Message(Ping{0, {0, 0, Phase::training, trial}, {}});
  };
  for (const float bad : {0.0F, -0.5F}) {
    CHECK(mentions(decode(with_float(encode(with({marker, 0.5F, 1})), bad)), "the learning rate"));
    CHECK_THROWS_AS(encode(with({bad, 0.5F, 1})), ArchiveError);
  }
  for (const float bad : {1.0F, -0.5F}) {
    CHECK(mentions(decode(with_float(encode(with({0.5F, marker, 1})), bad)), "the momentum"));
  }
  for (const float bad : {Limits::quiet_NaN(), Limits::infinity()}) {
    for (const Trial& trial : {Trial{marker, 0.5F, 1}, {0.5F, marker, 1}, {1, 0.5F, marker}}) {
      CHECK(mentions(decode(with_float(encode(with(trial)), bad)), "not finite"));
    }
  }
}

TEST_CASE("numbers that are not finite are refused on both sides", "[unit]") {
  using Limits = std::numeric_limits<float>;
  for (const float bad : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    Member rumor;
    rumor.progress.steps_per_second = marker;
    for (const Message& message : std::initializer_list<Message>{
             Offer{.alpha = marker}, Offer{.clip_radius = marker}, Accept{.alpha = marker},
             Accept{.clip_radius = marker}, Ping{.progress = {.steps_per_second = marker}},
             Nack{1, {rumor}}, Promise{{}, {.speed = marker}},
             Promise{{}, {.links = {{.latency_s = marker}}}},
             Promise{{}, {.links = {{.bytes_per_second = marker}}}},
             Install{{.slowest = {.bytes_per_second = marker}}}}) {
      CHECK(mentions(decode(with_float(encode(message), bad)), "not finite"));
    }
    CHECK_THROWS_AS(encode(Message(Accept{{}, bad, 0, 0, {}})), ArchiveError);
  }
  CHECK(decode(with_float(encode(Message(Accept{{}, marker, 0, 0, {}})), -0.0F)).frame);
}

/// A type that nests as deeply as its bytes say.
struct Nested {
  std::vector<Nested> inside;
};

template <BoundedArchive Archive>
void serialize(Archive& archive, Nested& nested) {
  archive(nested.inside);
}

TEST_CASE("nesting ends before the stack does", "[unit]") {
  const auto read_nested = [](std::size_t levels) {
    Bytes bytes;
    for (std::size_t i = 0; i < levels; ++i) {
      bytes.insert(bytes.end(), {std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}});
    }
    bytes.resize(bytes.size() + 4);
    BoundedInputArchive archive(bytes);
    Nested nested;
    archive(nested);
    archive.finish();
  };
  CHECK_NOTHROW(read_nested(8));
  CHECK_THROWS_AS(read_nested(40), ArchiveError);
  CHECK_THROWS_AS(read_nested(1000000), ArchiveError);
}

TEST_CASE("random bytes never throw and what is taken is what encode writes", "[unit]") {
  Rng rng(20240611);
  int taken = 0;
  for (int i = 0; i < 100000; ++i) {
    Bytes bytes(rng.below(200));
    for (std::byte& byte : bytes) {
      // Most values are small, because few inputs would have enough bytes for large lengths.
      byte = static_cast<std::byte>(rng.chance(0.7) ? rng.below(3) : rng.below(256));
    }
    // Use a valid version and kind, to get past the first checks.
    if (bytes.size() >= 2 && rng.chance(0.9)) {
      bytes[0] = std::byte{wire_version};
      bytes[1] = static_cast<std::byte>(rng.chance(0.1) ? 1 + rng.below(2) : 16 + rng.below(15));
    }
    if (!sound(bytes)) FAIL("round " << i);
    taken += decode(bytes).frame.has_value();
  }
  CHECK(taken > 50);  // Otherwise the test has seen only refusals.
}

TEST_CASE("a frame with one byte changed never throws and is refused or another frame", "[unit]") {
  Rng rng(20240612);
  std::vector<Bytes> valid;
  for (const Frame& frame : one_of_each()) valid.push_back(encode(frame));
  int taken = 0;
  for (int i = 0; i < 100000; ++i) {
    Bytes bytes = valid[rng.below(valid.size())];
    bytes[rng.below(bytes.size())] ^= static_cast<std::byte>(1 + rng.below(255));
    if (!sound(bytes)) FAIL("round " << i);
    taken += decode(bytes).frame.has_value();
  }
  CHECK(taken > 10000);
  CHECK(taken < 100000);
}

}  // namespace gv
