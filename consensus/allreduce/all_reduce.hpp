// One peer's part in one all-reduce: carries out its plan, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/floats.hpp"
#include "base/own_copy.hpp"
#include "consensus/allreduce/reduce_plan.hpp"
#include "consensus/codec/sparse_vector.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// The last block of a message may be longer than the others by up to 1/segment_rest of their
/// length.
inline constexpr std::size_t segment_rest = 4;
/// The largest size of a block other than the last. Even a longer last block fits into
/// block_bytes_max.
inline constexpr std::size_t segment_bytes_max =
    block_bytes_max / (segment_rest + 1) * segment_rest;
static_assert(block_bytes_usual <= segment_bytes_max);

/// Settings that must be equal at all participating peers.
struct AllReduceShape {
  std::vector<PeerId> order;  ///< The participating peers. The position is the rank.
  /// Identifies the agreement on `order`. Pieces of another generation are ignored.
  std::uint64_t generation = 0;
  /// Part of the id of every piece: in a pipeline, the stage whose peers compute the sum; for an
  /// averaged array, its length.
  std::uint32_t stage = 0;
  ReduceAlgorithm algorithm = ReduceAlgorithm::ring;
  std::vector<Range> buckets;  ///< Disjoint ranges, in the order in which inputs become ready.
  /// Adjacent ranges, one for each rank; may be empty. Together they form one bucket, which is
  /// gathered and not summed: every peer gets part i unchanged from rank i. The wire format must
  /// then be plain.
  std::vector<Range> parts;
  /// True if rank 0 has all parts and deals them out. Each rank then gets only its own part, and
  /// the rest of its result is meaningless.
  bool is_dealt = false;
  /// Number of elements in one block. The last block may be longer by up to 1/segment_rest. Each
  /// block is passed on as soon as it arrives.
  std::size_t segment = block_bytes_usual / sizeof(float);
  float scale = 1;  ///< Multiplies every sum once, when it is complete.
  /// If not 0, limits the norm of each block to this multiple of the norm of our own values in the
  /// same place (counted as at least 1). The sender of a block beyond the limit counts as hostile.
  /// Used only with `direct`, where a block has one peer's values or the mean of all. With other
  /// algorithms, an honest peer may pass on a partial sum that a hostile one has spoilt.
  double norm_cap = 0;
  /// From this element on, weights and the scale are 1, and values are sent without encoding.
  std::size_t unweighted_from = static_cast<std::size_t>(-1);
  /// No value of an input is larger than this. A sum that is larger than such inputs allow is
  /// clamped, and a peer that sends a far larger one counts as hostile. Must be above all values
  /// from `unweighted_from` on.
  float largest = std::numeric_limits<float>::max();
  /// Must be plain unless `algorithm` is the ring, which passes final pieces on unchanged. Each
  /// peer encodes its partial sums. The rank that completes a sum encodes it once, so that all
  /// peers get the same bits.
  WireFormat wire;

  static constexpr std::size_t field_count = 13;  ///< Declared because Fields can count only up to
                                                  ///< 12.
};

/// Computes `scale` times the sum of weight_i * input_i over all peers in `order`. The plan fixes
/// the order of additions, so all peers get the same bits. The input is never changed, so a peer
/// that gives up can start again. An input of weight 1 is sent in place, without a copy. Pure.
class AllReduce {
 public:
  using Vector = std::shared_ptr<Floats>;

  /// `input` holds our values. Each bucket is read only after ready(bucket). `work` has at least
  /// the same length and any contents, and becomes the result. Elements outside the buckets are not
  /// touched. Both vectors are kept alive while anything needs them.
  AllReduce(const AllReduceShape& options, PeerId self, std::uint64_t operation, float weight,
            std::shared_ptr<const Floats> input, Vector work);

  /// Call when the input of this bucket is ready: once for each bucket, in any order.
  void ready(std::size_t bucket, Effects& out);

  /// Returns the memory into which a block that is arriving should be read. Empty if the block may
  /// be read into any memory, or is not needed, for example because it has already arrived.
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);

  /// Takes a block. Returns true if it is a piece that this rank waits for, now or later. Any other
  /// block changes nothing.
  bool receive(PeerId from, const Block& block, Effects& out);

  bool done() const { return left_ == 0; }
  /// The first peer that sent unsound values: not finite, far larger than a sum can be, or with too
  /// large a norm. Once there is one, nothing more is sent or received, so unsound values get no
  /// further than the first honest peer.
  std::optional<PeerId> unsound_from() const { return unsound_from_; }
  std::uint64_t operation() const { return operation_; }
  /// The sum, once done() is true.
  const Vector& result() const { return work_; }

  /// True if we send a piece to `peer` or receive one from it.
  bool involves(PeerId peer) const;

  /// Number of elements received so far. It grows while there is progress.
  std::uint64_t progress() const { return progress_; }
  /// Bytes of all transfers requested so far.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  /// A copy of this object has its own working memory and shares the caller's input.
  friend class Fields;
  static constexpr std::size_t field_count = 14;
  friend bool operator==(const AllReduce& a, const AllReduce& b);

 private:
  struct Step {
    ReduceStep what;
    std::size_t at = 0;       ///< All elements before this one are done.
    bool first_touch = true;  ///< True if no earlier step writes these elements, so that our input
                              ///< must be added.
    bool is_added_to_later = false;   ///< True if a later step adds to the elements that this step
                                      ///< sends.
    std::vector<std::size_t> after;   ///< Earlier steps that this one waits for, element by
                                      ///< element.
    std::vector<std::size_t> before;  ///< Later steps that wait for this one.
    /// True if the step's elements are gathered and not summed. They may have any bits that a
    /// compressor writes.
    bool is_gathered = false;
  };
  struct Bucket {
    bool ready = false;
    bool has_parts = false;  ///< True if the bucket's parts are gathered or dealt out, not summed.
    std::vector<Step> steps;
  };
  /// Identifies a block that arrived too early: its bucket, step and segment.
  using EarlyKey = std::tuple<std::size_t, std::size_t, std::size_t>;
  struct Early {
    std::span<const float> values;  ///< Empty if the block was read directly into the result.
    std::shared_ptr<const void> owner;
  };

  /// The piece that a block contains.
  struct Awaited {
    std::size_t bucket = 0;
    std::size_t step = 0;
    std::size_t segment = 0;
    Range range;

    EarlyKey key() const { return {bucket, step, segment}; }
  };

  std::optional<Awaited> awaited(PeerId from, const TransferId& id, std::uint64_t offset) const;
  std::vector<ReduceStep> plan_of(const Bucket& bucket, Range range) const;
  std::size_t limit(const Bucket& bucket, const Step& step) const;
  void go_on(std::size_t bucket, std::size_t step, Effects& out);
  void send(std::size_t bucket, Step& step, Effects& out);
  Payload payload(const Step& step, std::size_t end, const PieceName& piece);
  Payload coded_payload(const Step& step, std::size_t end, const PieceName& piece);
  bool read(std::span<const std::byte> bytes, std::size_t begin, std::span<float> values) const;
  bool is_final(const Step& step) const;
  void take_early(std::size_t bucket, std::size_t step);
  void merge(Step& step, std::span<const float> values);
  float largest_sum(const Step& step) const;
  bool has_norm_cap() const;
  bool is_too_long(const Step& step, std::span<const float> values) const;
  std::size_t elements() const;
  float bring_in(std::size_t begin, std::size_t end, const float* came, float scale);
  bool sends_input(const Step& step) const;
  std::size_t segments(const Step& step) const;
  std::size_t segment_begin(const Step& step, std::size_t segment) const;
  std::size_t segment_at(const Step& step) const;
  void finish_if_complete(const Step& step);

  AllReduceShape options_;
  PeerId self_;
  std::size_t rank_ = 0;
  std::uint64_t operation_;
  float weight_;
  std::shared_ptr<const Floats> input_;
  OwnCopy<Floats> work_;
  std::vector<Bucket> buckets_;
  std::map<EarlyKey, Early> early_;
  std::map<std::size_t, Payload> written_;  ///< Encoded final pieces as received, by the index of
                                            ///< their first element.
  std::optional<PeerId> unsound_from_;
  std::size_t left_ = 0;  ///< Number of unfinished steps, plus buckets whose input is not ready.
  std::uint64_t progress_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace gv
