(** Choosing one of several candidates: the exponential mechanism, permute-and-flip, the noisy maximum.

    A candidate of score u has the weight e^(rate u). Scores that move by at most d move weights by a ratio of at
    most e^(rate d). *)

From Coq Require Import Reals Lra Lia List ZArith FinFun.
From Sfumato Require Import Dist Privacy Series.
Import ListNotations.
Open Scope R_scope.

(** ** The exponential mechanism *)

Section Exponential.
Context {C : Type} (EC : decidable_equality C) (candidates : list C).
Hypotheses (distinct : NoDup candidates).

Definition share (w : C -> R) (c : C) : R := if in_dec EC c candidates then w c / sum w candidates else 0.

Lemma sum_pos (w : C -> R) : candidates <> [] -> (forall c, 0 < w c) -> 0 < sum w candidates.
Proof.
  intros N P. destruct candidates as [|c l]; [congruence|]. simpl. specialize (P c) as Pc.
  assert (0 <= sum w l) by (apply sum_nonneg; intros x; left; auto). lra.
Qed.

Definition exponential (w : C -> R) (N : candidates <> []) (P : forall c, 0 < w c) : law C.
Proof.
  pose proof (sum_pos w N P) as S.
  assert (Q : forall c, 0 <= share w c).
  { intros c. unfold share. destruct (in_dec EC c candidates); [|lra].
    apply Rmult_le_pos; [left; auto|]. left. apply Rinv_0_lt_compat. auto. }
  refine {| mass := share w; mass_nonneg := Q |}.
  apply (total_finite_eq _ candidates); auto.
  - rewrite (sum_ext _ (fun c => / sum w candidates * w c)), sum_scale; [field; lra|].
    intros c H. unfold share. destruct (in_dec EC c candidates); [|tauto]. unfold Rdiv. ring.
  - intros c H. unfold share. destruct (in_dec EC c candidates); tauto.
Defined.

(** Weights that move between low and high times the other ones move shares by high/low at most. *)
Lemma shares_close (w w' : C -> R) low high : candidates <> [] -> (forall c, 0 < w c) -> (forall c, 0 < w' c) ->
  0 < low -> (forall c, low * w' c <= w c <= high * w' c) -> forall c, share w c <= high / low * share w' c.
Proof.
  intros N P P' L H c. unfold share. destruct (in_dec EC c candidates); [|lra].
  pose proof (sum_pos w N P). pose proof (sum_pos w' N P').
  assert (low * sum w' candidates <= sum w candidates).
  { rewrite <- sum_scale. apply sum_le. intros x _. apply H. }
  apply Rle_trans with (high * w' c / (low * sum w' candidates)).
  - unfold Rdiv. apply Rmult_le_compat; [left; auto| |apply H|].
    + left. apply Rinv_0_lt_compat. lra.
    + apply Rinv_le_contravar; auto. apply Rmult_lt_0_compat; auto.
  - right. field. lra.
Qed.

Context {Data : Type} (near : Data -> Data -> Prop) (score : Data -> C -> Z) (d : Z) (rate : R).
Hypotheses (some : candidates <> []) (rate_pos : 0 <= rate).
Hypothesis sensitivity : forall D D' c, near D D' -> (Z.abs (score D c - score D' c) <= d)%Z.

Definition weight (D : Data) (c : C) : R := exp (rate * IZR (score D c)).
Definition choose (D : Data) : law C := exponential (weight D) some (fun c => exp_pos _).

Lemma weights_close D D' c (k : Z) : (score D c - score D' c <= k)%Z -> weight D c <= exp (rate * IZR k) * weight D' c.
Proof.
  intros H. unfold weight. rewrite <- exp_plus. apply IZR_le in H. rewrite minus_IZR in H.
  destruct (Req_dec (rate * IZR (score D c)) (rate * IZR k + rate * IZR (score D' c))) as [->|N]; [lra|].
  left. apply exp_increasing. nra.
Qed.

(** Theorem. With rate = epsilon/(2 d) the choice is e^epsilon-private. *)
Theorem exponential_mechanism : private near (exp (rate * (2 * IZR d))) choose.
Proof.
  intros D D' N c. simpl.
  replace (exp (rate * (2 * IZR d))) with (exp (rate * IZR d) / exp (- (rate * IZR d))).
  2: { unfold Rdiv. rewrite <- exp_Ropp, <- exp_plus. f_equal. ring. }
  apply shares_close; auto; try (intros; apply exp_pos); try apply exp_pos.
  intros x. specialize (sensitivity D D' x N). split.
  - assert (weight D' x <= exp (rate * IZR d) * weight D x) by (apply weights_close; lia).
    pose proof (exp_pos (rate * IZR d)). rewrite exp_Ropp.
    apply (Rmult_le_reg_l (exp (rate * IZR d))); auto. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. auto.
  - apply weights_close. lia.
Qed.

(** Theorem (bounded range). All ratios of a pair lie within a factor e^(2 rate d) of each other. *)
Theorem exponential_bounded_range D D' : near D D' ->
  exists c, 0 < c /\ forall x, c * choose D' x <= choose D x <= exp (rate * (2 * IZR d)) * (c * choose D' x).
Proof.
  intros N. pose proof (sum_pos (weight D) some (fun c => exp_pos _)) as S. pose proof (sum_pos (weight D') some (fun c => exp_pos _)) as S'.
  set (W := sum (weight D) candidates) in *. set (W' := sum (weight D') candidates) in *.
  pose proof (exp_pos (rate * IZR d)) as P.
  exists (/ exp (rate * IZR d) * (W' / W)).
  assert (Q : 0 < W' / W) by (apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]).
  split; [apply Rmult_lt_0_compat; [apply Rinv_0_lt_compat; lra|auto]|]. intros x. simpl. unfold share.
  destruct (in_dec EC x candidates); [|rewrite !Rmult_0_r; lra]. fold W W'.
  assert (A : weight D x <= exp (rate * IZR d) * weight D' x) by (apply weights_close; specialize (sensitivity D D' x N); lia).
  assert (B : weight D' x <= exp (rate * IZR d) * weight D x) by (apply weights_close; specialize (sensitivity D D' x N); lia).
  assert (I : 0 < / W) by (apply Rinv_0_lt_compat; lra).
  assert (E : exp (rate * (2 * IZR d)) = exp (rate * IZR d) * exp (rate * IZR d)) by (rewrite <- exp_plus; f_equal; ring).
  rewrite E. set (r := exp (rate * IZR d)) in *.
  replace (/ r * (W' / W) * (weight D' x / W')) with (/ r * weight D' x * / W) by (field; lra).
  replace (r * r * (/ r * weight D' x * / W)) with (r * weight D' x * / W) by (field; lra).
  unfold Rdiv. split; apply Rmult_le_compat_r; try lra.
  apply (Rmult_le_reg_l r); auto. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. exact B.
Qed.

(** Theorem. If all scores of a pair move the same way, rate = epsilon/d suffices. *)
Theorem exponential_mechanism_monotone :
  (forall D D', near D D' -> (forall c, score D c <= score D' c)%Z \/ (forall c, score D' c <= score D c)%Z) ->
  private near (exp (rate * IZR d)) choose.
Proof.
  intros M D D' N c. simpl. pose proof (exp_pos (rate * IZR d)).
  destruct (M D D' N) as [U|U].
  - replace (exp (rate * IZR d)) with (1 / exp (- (rate * IZR d))).
    2: { unfold Rdiv. rewrite <- exp_Ropp, Ropp_involutive. ring. }
    apply shares_close; auto; try (intros; apply exp_pos); try apply exp_pos.
    intros x. specialize (sensitivity D D' x N). specialize (U x). split.
    + assert (weight D' x <= exp (rate * IZR d) * weight D x) by (apply weights_close; lia).
      rewrite exp_Ropp.
      apply (Rmult_le_reg_l (exp (rate * IZR d))); auto. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. auto.
    + replace 1 with (exp (rate * IZR 0)) by (rewrite Rmult_0_r, exp_0; reflexivity). apply weights_close. lia.
  - replace (exp (rate * IZR d)) with (exp (rate * IZR d) / 1) by field.
    apply shares_close; auto; try (intros; apply exp_pos); try lra.
    intros x. specialize (sensitivity D D' x N). specialize (U x). split.
    + rewrite Rmult_1_l. replace (weight D x) with (exp (rate * IZR 0) * weight D x)
        by (rewrite Rmult_0_r, exp_0; ring). apply weights_close. lia.
    + apply weights_close. lia.
Qed.
End Exponential.

(** ** Permute-and-flip *)

Section Flip.

(** All ways to take one element out of a list. *)
Fixpoint picks (l : list R) : list (R * list R) :=
  match l with
  | [] => []
  | x :: l => (x, l) :: map (fun p => (fst p, x :: snd p)) (picks l)
  end.

Lemma picks_length l p : In p (picks l) -> length l = S (length (snd p)).
Proof.
  revert p. induction l as [|x l IH]; simpl; [tauto|]. intros p [<-|H]; simpl; auto.
  apply in_map_iff in H as (p' & <- & H). simpl. f_equal. auto.
Qed.

Lemma length_picks l : length (picks l) = length l.
Proof. induction l; simpl; auto. rewrite map_length. congruence. Qed.

(** In a uniform order of one candidate and [others], each with a coin: the chance that no head comes up before that
    candidate's turn. The first in the order is the candidate itself, or one of the others, who must show tails. *)
Fixpoint reached (n : nat) (others : list R) : R :=
  match n with
  | O => 1
  | S n => (1 + sum (fun p => (1 - fst p) * reached n (snd p)) (picks others)) / INR (S (length others))
  end.

Definition turn (others : list R) : R := reached (length others) others.

(** The candidate wins if its turn comes and its own coin shows heads. *)
Definition wins (own : R) (others : list R) : R := own * turn others.

Lemma reached_empty n : reached n [] = 1.
Proof. destruct n; simpl; [reflexivity|]. field. Qed.

Lemma turn_step l : turn l = (1 + sum (fun p => (1 - fst p) * turn (snd p)) (picks l)) / INR (S (length l)).
Proof.
  unfold turn. destruct l as [|x l].
  - simpl. field.
  - change (length (x :: l)) with (S (length l)) at 1. cbn [reached]. f_equal. f_equal. apply sum_ext. intros p H.
    apply picks_length in H. simpl in H. injection H as H. rewrite H. reflexivity.
Qed.

Definition coins (l : list R) : Prop := Forall (fun p => 0 <= p <= 1) l.

Lemma picks_coins l p : coins l -> In p (picks l) -> 0 <= fst p <= 1 /\ coins (snd p).
Proof.
  intros C. revert p. induction C as [|x l Hx C IH]; simpl; [tauto|]. intros p [<-|H]; simpl; auto.
  apply in_map_iff in H as (p' & <- & H). simpl. destruct (IH p' H). split; auto. constructor; auto.
Qed.

Lemma list_size_ind (Q : list R -> Prop) :
  (forall l, (forall l', (length l' < length l)%nat -> Q l') -> Q l) -> forall l, Q l.
Proof.
  intros H l. remember (length l) as n. assert (L : (length l <= n)%nat) by lia. clear Heqn.
  revert l L. induction n as [|n IH]; intros l L; apply H; intros l' L'; [lia|]. apply IH. lia.
Qed.

Lemma INR_S_pos n : 0 < INR (S n).
Proof. apply lt_0_INR. lia. Qed.

Lemma turn_nonneg l : coins l -> 0 <= turn l.
Proof.
  induction l as [l IH] using list_size_ind. intros C. rewrite turn_step.
  apply Rmult_le_pos; [|left; apply Rinv_0_lt_compat, INR_S_pos].
  assert (0 <= sum (fun p => (1 - fst p) * turn (snd p)) (picks l)); [|lra].
  rewrite <- (Rmult_0_l (INR (length (picks l)))), Rmult_comm, <- (sum_const 0 (picks l)).
  apply sum_le. intros p H. destruct (picks_coins l p C H). apply picks_length in H.
  apply Rmult_le_pos; [lra|]. apply IH; auto. lia.
Qed.

(** Two lists, element by element. *)
Lemma picks_related (rel : R -> R -> Prop) l l' (f g : R * list R -> R) : Forall2 rel l l' ->
  (forall x x' k k', rel x x' -> Forall2 rel k k' -> S (length k) = length l -> f (x, k) <= g (x', k')) ->
  sum f (picks l) <= sum g (picks l').
Proof.
  intros F. revert f g. induction F as [|x x' l l' Hx F IH]; intros f g H; simpl; [lra|].
  apply Rplus_le_compat; [apply H; auto|]. rewrite !sum_map. apply IH.
  intros y y' k k' Hy Hk L. simpl. apply H; auto. simpl. congruence.
Qed.

(** Larger coins of others leave less room. *)
Lemma turn_decreasing l : forall l', coins l -> coins l' -> Forall2 Rle l l' -> turn l' <= turn l.
Proof.
  induction l as [l IH] using list_size_ind. intros l' C C' F. rewrite !turn_step.
  assert (L : length l = length l') by (clear - F; induction F; simpl; congruence). rewrite <- L.
  apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, INR_S_pos|]. apply Rplus_le_compat_l.
  assert (F' : Forall2 (fun x' x => x <= x' /\ 0 <= x <= 1 /\ 0 <= x' <= 1) l' l).
  { clear - C C' F. induction F; constructor; inversion C; inversion C'; subst; auto. }
  apply (picks_related _ _ _ _ _ F'). intros x' x k' k (Hx & Bx & Bx') Hk Lk. simpl.
  assert (Ck : coins k /\ coins k' /\ Forall2 Rle k k' /\ length k = length k').
  { clear - Hk. induction Hk as [|y' y k' k (H1 & H2 & H3) Hk (A & B & E & G)]; repeat split; try constructor; auto.
    simpl. congruence. }
  destruct Ck as (A & B & E & G).
  assert (turn k' <= turn k) by (apply IH; auto; lia).
  pose proof (turn_nonneg k' B). nra.
Qed.

(** Taking out j then k, or k then j. *)
Lemma picks_swap (f : R -> R -> list R -> R) l :
  sum (fun p => sum (fun p' => f (fst p) (fst p') (snd p')) (picks (snd p))) (picks l) =
  sum (fun p => sum (fun p' => f (fst p') (fst p) (snd p')) (picks (snd p))) (picks l).
Proof.
  revert f. induction l as [|x l IH]; intros f; [reflexivity|]. simpl. rewrite !sum_map. simpl.
  assert (E : forall g : R -> R -> list R -> R,
    sum (fun a => g (fst a) x (snd a) + sum (fun p' => g (fst a) (fst p') (snd p')) (map (fun p => (fst p, x :: snd p)) (picks (snd a)))) (picks l)
    = sum (fun a => g (fst a) x (snd a)) (picks l)
      + sum (fun a => sum (fun p' => g (fst a) (fst p') (x :: snd p')) (picks (snd a))) (picks l)).
  { intros g. rewrite <- sum_plus. apply sum_ext. intros a _. rewrite sum_map. reflexivity. }
  rewrite (E f), (E (fun a b => f b a)). specialize (IH (fun a b k => f a b (x :: k))). simpl in IH. rewrite IH. ring.
Qed.

Fixpoint product (l : list R) : R := match l with [] => 1 | p :: l => (1 - p) * product l end.

Lemma product_pick l p : In p (picks l) -> product l = (1 - fst p) * product (snd p).
Proof.
  revert p. induction l as [|x l IH]; simpl; [tauto|]. intros p [<-|H]; simpl; auto.
  apply in_map_iff in H as (p' & <- & H). simpl. rewrite (IH p' H). ring.
Qed.

(** Some candidate wins unless all coins show tails. *)
Theorem permute_and_flip_whole l : sum (fun p => wins (fst p) (snd p)) (picks l) = 1 - product l.
Proof.
  induction l as [l IH] using list_size_ind. destruct (Nat.eq_dec (length l) 0) as [Z|NZ].
  { destruct l; [simpl; ring|discriminate]. }
  assert (P : 0 < INR (length l)) by (apply lt_0_INR; lia).
  assert (E : sum (fun p => wins (fst p) (snd p)) (picks l) =
    / INR (length l) * (sum (fun p => fst p) (picks l) +
      sum (fun p => sum (fun p' => fst p * ((1 - fst p') * turn (snd p'))) (picks (snd p))) (picks l))).
  { rewrite <- sum_plus, <- sum_scale. apply sum_ext. intros p H. unfold wins. rewrite turn_step, sum_scale.
    apply picks_length in H. rewrite <- H. field. lra. }
  rewrite E, (picks_swap (fun a b k => a * ((1 - b) * turn k))).
  rewrite <- sum_plus.
  rewrite (sum_ext _ (fun _ => 1 - product l)).
  - rewrite sum_const, length_picks. field. lra.
  - intros p H. assert (L := picks_length _ _ H).
    rewrite (sum_ext _ (fun p' => (1 - fst p) * wins (fst p') (snd p'))) by (intros; unfold wins; ring).
    rewrite sum_scale, IH by lia. rewrite (product_pick l p H). ring.
Qed.

(** Scaling all other coins down by a factor gains at most that factor. *)
Lemma turn_scaled l : forall s, coins l -> 0 <= s <= 1 -> s * turn (map (Rmult s) l) <= turn (map (Rmult s) l) /\
  s * turn (map (Rmult s) l) <= turn l.
Proof.
  induction l as [l IH] using list_size_ind. intros s C Hs.
  assert (Cs : coins (map (Rmult s) l)).
  { clear - C Hs. induction C; simpl; constructor; auto. nra. }
  split; [pose proof (turn_nonneg _ Cs); nra|].
  rewrite !turn_step, map_length. unfold Rdiv. rewrite <- Rmult_assoc.
  apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, INR_S_pos|].
  assert (PS : picks (map (Rmult s) l) = map (fun p => (s * fst p, map (Rmult s) (snd p))) (picks l)).
  { clear. induction l as [|x l IH]; simpl; auto. rewrite IH, !map_map. reflexivity. }
  rewrite PS, sum_map. simpl.
  (* s + sum (1 - s p) s t' <= 1 + sum (1 - p) t, because s t' <= t and sum p t <= 1 *)
  assert (A : s * sum (fun p => (1 - s * fst p) * turn (map (Rmult s) (snd p))) (picks l)
           <= sum (fun p => (1 - fst p) * turn (snd p) + (1 - s) * wins (fst p) (snd p)) (picks l)).
  { rewrite <- sum_scale. apply sum_le. intros p H. destruct (picks_coins l p C H) as [B Cp].
    assert (L := picks_length _ _ H).
    destruct (IH (snd p) ltac:(lia) s Cp Hs) as [_ I]. unfold wins.
    apply Rle_trans with ((1 - s * fst p) * turn (snd p)); [|right; ring].
    rewrite <- Rmult_assoc, (Rmult_comm s), Rmult_assoc. apply Rmult_le_compat_l; [nra|exact I]. }
  rewrite sum_plus, sum_scale, permute_and_flip_whole in A.
  assert (0 <= product l). { clear - C. induction C; simpl; [lra|]. apply Rmult_le_pos; lra. }
  nra.
Qed.

(** The coins of a candidate of weight 1 and of others of weights [a], relative to the best weight [top]. *)
Definition chosen (top : R) (a : list R) : R := wins (/ top) (map (Rmult (/ top)) a).

Definition below (top : R) (a : list R) : Prop := 1 <= top /\ Forall (fun x => 0 <= x <= top) a.

Lemma scaled_coins top a : below top a -> coins (map (Rmult (/ top)) a).
Proof.
  intros [T F]. assert (0 < / top) by (apply Rinv_0_lt_compat; lra).
  induction F; simpl; constructor; auto. split; [nra|].
  apply (Rmult_le_reg_l top); [lra|]. rewrite <- Rmult_assoc, Rinv_r; lra.
Qed.

Lemma chosen_smaller_top top top' a : below top a -> top <= top' -> chosen top' a <= chosen top a.
Proof.
  intros B T. pose proof (scaled_coins _ _ B) as Cs. destruct B as [B _]. unfold chosen, wins.
  assert (0 < / top) by (apply Rinv_0_lt_compat; lra).
  assert (0 < / top') by (apply Rinv_0_lt_compat; lra).
  set (s := top * / top').
  assert (S1 : 0 <= s <= 1).
  { unfold s. split; [nra|]. apply (Rmult_le_reg_r top'); [lra|]. rewrite Rmult_assoc, Rinv_l; lra. }
  destruct (turn_scaled _ s Cs S1) as [_ L]. rewrite map_map in L.
  assert (E : map (fun x => s * (/ top * x)) a = map (Rmult (/ top')) a).
  { apply map_ext. intros x. unfold s. field. lra. }
  rewrite E in L. apply (Rmult_le_reg_l top); [lra|]. rewrite <- !Rmult_assoc, Rinv_r, Rmult_1_l by lra. exact L.
Qed.

(** Theorem. If the weights of all others, relative to the candidate, grow by at most r, its chance falls by at most r. *)
Theorem permute_and_flip r top top' a a' : 1 <= r -> below top a -> below top' a' ->
  top' <= r * top -> Forall2 (fun x' x => x' <= r * x) a' a ->
  chosen top a <= r * chosen top' a'.
Proof.
  intros R1 B B' T F.
  assert (Rt : 0 < r * top) by (destruct B; nra).
  apply Rle_trans with (r * chosen (r * top) a').
  - unfold chosen, wins. destruct B as [B1 B2].
    replace (r * (/ (r * top) * turn (map (Rmult (/ (r * top))) a'))) with (/ top * turn (map (Rmult (/ (r * top))) a'))
      by (field; lra).
    apply Rmult_le_compat_l; [left; apply Rinv_0_lt_compat; lra|].
    assert (I : 0 < / (r * top)) by (apply Rinv_0_lt_compat; auto).
    apply turn_decreasing.
    + apply scaled_coins. split; [nra|]. destruct B' as [_ B']. clear - B' T.
      induction B'; constructor; auto. lra.
    + apply scaled_coins. split; auto.
    + clear - F I R1 B1. induction F as [|x' x l' l H F IH]; simpl; constructor; auto.
      apply Rle_trans with (/ (r * top) * (r * x)); [apply Rmult_le_compat_l; lra|]. right. field. lra.
  - apply Rmult_le_compat_l; [lra|]. apply chosen_smaller_top; auto.
Qed.

(** The same in scores: coin j shows heads with probability e^(rate (u_j - best)). *)
Definition flip (rate : R) (own : Z) (others : list Z) : R :=
  let best := fold_right Z.max own others in
  wins (exp (rate * IZR (own - best))) (map (fun u => exp (rate * IZR (u - best))) others).

Lemma exp_rate_le rate j k : 0 <= rate -> (j <= k)%Z -> exp (rate * IZR j) <= exp (rate * IZR k).
Proof.
  intros P L. apply IZR_le in L. destruct (Req_dec (rate * IZR j) (rate * IZR k)) as [->|N]; [lra|].
  left. apply exp_increasing. nra.
Qed.

Lemma flip_chosen rate own others : let best := fold_right Z.max own others in
  flip rate own others = chosen (exp (rate * IZR (best - own))) (map (fun u => exp (rate * IZR (u - own))) others).
Proof.
  simpl. unfold flip, chosen. set (best := fold_right Z.max own others).
  rewrite map_map, <- exp_Ropp. f_equal; [f_equal; rewrite !minus_IZR; ring|].
  apply map_ext. intros u. rewrite <- exp_plus. f_equal. rewrite !minus_IZR. ring.
Qed.

Lemma best_own own others : (own <= fold_right Z.max own others)%Z.
Proof. induction others; simpl; lia. Qed.

Lemma best_others own others : Forall (fun u => (u <= fold_right Z.max own others)%Z) others.
Proof.
  apply Forall_forall. induction others as [|v l IH]; simpl; [tauto|]. intros u [->|H]; [lia|].
  specialize (IH u H). lia.
Qed.

(** Theorem. Scores that move by at most d: with rate = epsilon/(2 d) permute-and-flip is e^epsilon-private. *)
Theorem permute_and_flip_mechanism rate d own own' others others' : 0 <= rate -> (Z.abs (own - own') <= d)%Z ->
  Forall2 (fun u' u => (Z.abs (u - u') <= d)%Z) others' others ->
  flip rate own others <= exp (rate * IZR (2 * d)) * flip rate own' others'.
Proof.
  intros P O F. rewrite !flip_chosen.
  set (best := fold_right Z.max own others). set (best' := fold_right Z.max own' others').
  assert (Bb : (best' <= best + d)%Z).
  { unfold best, best'. clear - F O. induction F; simpl; lia. }
  assert (G : forall own others, below (exp (rate * IZR (fold_right Z.max own others - own)))
                                       (map (fun u => exp (rate * IZR (u - own))) others)).
  { intros o l. split.
    - rewrite <- exp_0, <- (Rmult_0_r rate). apply exp_rate_le; auto. pose proof (best_own o l). lia.
    - apply Forall_map. pose proof (best_others o l) as B. revert B. apply Forall_impl.
      intros u Hu. split; [left; apply exp_pos|]. apply exp_rate_le; auto. lia. }
  apply permute_and_flip; try apply G.
  - rewrite <- exp_0, <- (Rmult_0_r rate). apply exp_rate_le; auto. lia.
  - rewrite <- exp_plus, <- Rmult_plus_distr_l, <- plus_IZR. apply exp_rate_le; auto. lia.
  - clear - F P O. induction F as [|u' u l' l H F IH]; cbn [map]; constructor; auto.
    rewrite <- exp_plus, <- Rmult_plus_distr_l, <- plus_IZR. apply exp_rate_le; auto. lia.
Qed.
End Flip.

(** ** The noisy maximum with one-sided geometric noise *)

Section NoisyMaximum.
Variable x : R.
Hypothesis x_range : 0 < x < 1.

(** P[G = g] = (1 - x) x^g. *)
Definition one_sided : law nat.
Proof.
  refine {| mass := fun g => (1 - x) * x ^ g |}.
  - intros g. apply Rmult_le_pos; [lra|]. apply pow_le. lra.
  - assert (E : (1 - x) / (1 - x) = 1) by (field; lra). pose proof (total_geometric (1 - x) x ltac:(lra) ltac:(lra)) as T. rewrite E in T. exact T.
Defined.

(** The candidate's noisy score must reach those of all others. A tie is 1 where the other one comes first in the
    list of candidates, and must be beaten, and 0 otherwise. *)
Fixpoint selected (own : Z) (others : list (Z * Z)) (noises : list nat) (noise : nat) : bool :=
  match others, noises with
  | (u, tie) :: others, g :: noises => ((u + Z.of_nat g + tie <=? own + Z.of_nat noise)%Z && selected own others noises noise)%bool
  | _, _ => true
  end.

Lemma selected_shift s own own' others others' noises noise :
  Forall2 (fun p p' => snd p = snd p' /\ (fst p' - own' <= fst p - own + Z.of_nat s)%Z) others others' ->
  selected own others noises noise = true -> selected own' others' noises (noise + s) = true.
Proof.
  intros F. revert noises. induction F as [|(u, t) (u', t') l l' (E & H) F IH]; simpl; auto.
  intros [|g noises]; auto. intros S. apply andb_prop in S as [S1 S2]. simpl in E, H. subst t'.
  rewrite IH by auto. apply Z.leb_le in S1. rewrite Bool.andb_true_r. apply Z.leb_le. lia.
Qed.

(** Theorem. If no score gains more than s on the candidate's, the candidate's chance falls by at most x^s,
    whatever the noises of the others. With scores that move by at most d, s = 2 d. *)
Theorem noisy_maximum (others_noise : law (list nat)) s own own' others others' p p' :
  Forall2 (fun p p' => snd p = snd p' /\ (fst p' - own' <= fst p - own + Z.of_nat s)%Z) others others' ->
  let noises := joint (list_eq_dec Nat.eq_dec) others_noise (fun _ => one_sided) in
  chance noises (fun n => selected own others (fst n) (snd n)) p ->
  chance noises (fun n => selected own' others' (fst n) (snd n)) p' -> p <= (/ x) ^ s * p'.
Proof.
  intros F noises C C'. assert (X : 0 < x ^ s) by (apply pow_lt; lra).
  apply (total_le _ _ _ C). intros l N. rewrite pow_inv.
  apply (Rmult_le_reg_l (x ^ s)); auto. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra.
  set (move := fun n : list nat * nat => (fst n, (snd n + s)%nat)).
  apply Rle_trans with (sum (fun n => if selected own' others' (fst n) (snd n) then noises n else 0) (map move l)).
  - rewrite sum_map, <- sum_scale. apply sum_le. intros (gs, g) _. unfold move. cbn [fst snd].
    assert (E : noises (gs, (g + s)%nat) = x ^ s * noises (gs, g)).
    { simpl. unfold joint_mass. simpl. rewrite pow_add. ring. }
    destruct (selected own others gs g) eqn:S.
    + rewrite (selected_shift s own own' others others' gs g F S), E. lra.
    + rewrite Rmult_0_r. destruct (selected own' others' gs (g + s)); [apply mass_nonneg|lra].
  - apply (total_ub _ _ _ C'). apply Injective_map_NoDup; auto.
    intros (a, b) (c, d) E. unfold move in E. simpl in E. injection E as -> E. f_equal. lia.
Qed.
End NoisyMaximum.
