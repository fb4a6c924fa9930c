(** Refinement: an answer with less noise, drawn given the answer that is already known.

    Noise of ratio q1 is noise of the smaller ratio q2 plus independent noise W. So a finer answer can be drawn from
    its conditional law, and the pair of both answers costs what the finer one costs alone. *)

From Coq Require Import Reals Lra Lia List ZArith QArith Qreals.
From Sfumato Require Import Dist Privacy Series Geometric Filter.
Import ListNotations.
Open Scope R_scope.

Section Identity.
Variables (q1 q2 : R).
Hypotheses (order : 0 < q2 < q1) (below_one : q1 < 1).

Lemma range1 : 0 < q1 < 1. Proof. lra. Qed.
Lemma range2 : 0 < q2 < 1. Proof. lra. Qed.

(** The share of W that is exactly 0. *)
Definition still : R := ((1 - q1) / (1 - q2)) ^ 2 * (q2 / q1).

Lemma still_range : 0 < still < 1.
Proof.
  unfold still. simpl. rewrite Rmult_1_r.
  assert (0 < (1 - q1) / (1 - q2)) by (apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]).
  assert (0 < q2 / q1) by (apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]).
  split; [apply Rmult_lt_0_compat; auto; apply Rmult_lt_0_compat; auto|].
  replace ((1 - q1) / (1 - q2) * ((1 - q1) / (1 - q2)) * (q2 / q1))
    with (1 - (q1 - q2) * (1 - q1 * q2) / ((1 - q2) * (1 - q2) * q1)) by (field; lra).
  assert (0 < (q1 - q2) * (1 - q1 * q2) / ((1 - q2) * (1 - q2) * q1)); [|lra].
  assert (q1 * q2 < 1 * 1) by (apply Rmult_le_0_lt_compat; lra).
  apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; lra|]. apply Rinv_0_lt_compat. repeat apply Rmult_lt_0_compat; lra.
Qed.

Definition extra (j : Z) : R := (if Z.eq_dec j 0 then still else 0) + (1 - still) * geometric_mass q1 j.

Lemma extra_nonneg j : 0 <= extra j.
Proof.
  unfold extra. pose proof still_range. pose proof (geometric_pos q1 range1 j).
  assert (0 <= (1 - still) * geometric_mass q1 j) by (apply Rmult_le_pos; lra). destruct (Z.eq_dec j 0); lra.
Qed.

Lemma point_total k c : 0 <= c -> total (fun z : Z => if Z.eq_dec z k then c else 0) c.
Proof.
  intros C. apply (total_finite_eq _ [k]).
  - simpl. destruct (Z.eq_dec k k); [lra|congruence].
  - intros z. destruct (Z.eq_dec z k); lra.
  - repeat constructor. simpl. tauto.
  - intros z H. destruct (Z.eq_dec z k) as [->|]; [simpl in H; tauto|reflexivity].
  - apply Z.eq_dec.
Qed.

Theorem extra_sums_to_one : total extra 1.
Proof.
  pose proof still_range. replace 1 with (still + (1 - still) * 1) by ring. apply total_plus.
  - intros z. destruct (Z.eq_dec z 0); lra.
  - intros z. apply Rmult_le_pos; [lra|]. left. apply geometric_pos, range1.
  - apply Z.eq_dec.
  - apply point_total. lra.
  - apply total_scale; [lra|]. apply geometric_sums_to_one, range1.
Qed.

Definition extra_law : law Z := {| mass := extra; mass_nonneg := extra_nonneg; mass_total := extra_sums_to_one |}.

(** Sums of products of powers. *)
Lemma mixed_powers k : sum (fun n => q2 ^ n * q1 ^ (k - n)) (seq 0 (S k)) = (q1 ^ S k - q2 ^ S k) / (q1 - q2).
Proof.
  assert (G : forall n, (n <= S k)%nat ->
     sum (fun i => q2 ^ i * q1 ^ (k - i)) (seq 0 n) = (q1 ^ S k - q2 ^ n * q1 ^ (S k - n)) / (q1 - q2)).
  { induction n as [|n IH]; intros L.
    - simpl. field. lra.
    - rewrite seq_S, sum_app, IH by lia. cbn [sum fold_right plus].
      replace (S k - n)%nat with (S (k - n)) by lia. replace (S k - S n)%nat with (k - n)%nat by lia.
      simpl. field. lra. }
  rewrite G by lia. rewrite Nat.sub_diag. simpl. field. lra.
Qed.

Definition crossed (k : nat) : R :=
  (1 - q1) / (1 + q1) * ((1 - q2) / (1 + q2)) *
  ((q1 ^ S k - q2 ^ S k) / (q1 - q2) + q2 ^ S k * q1 / (1 - q1 * q2) + q1 ^ S k * q2 / (1 - q1 * q2)).

Lemma convolution k : total (fun z => geometric_mass q2 z * geometric_mass q1 (Z.of_nat k - z)) (crossed k).
Proof.
  set (c := (1 - q1) / (1 + q1) * ((1 - q2) / (1 + q2))).
  assert (C : 0 < c) by (unfold c; apply Rmult_lt_0_compat; apply head_pos; lra).
  assert (Q : 0 <= q1 * q2 < 1) by nra.
  replace (crossed k) with ((c * ((q1 ^ S k - q2 ^ S k) / (q1 - q2)) + c * (q2 ^ S k * q1) / (1 - q1 * q2))
                            + c * (q1 ^ S k * q2) / (1 - q1 * q2)) by (unfold crossed; fold c; unfold Rdiv; ring).
  assert (P1 : forall n, 0 < q1 ^ n) by (intros; apply pow_lt; lra).
  assert (P2 : forall n, 0 < q2 ^ n) by (intros; apply pow_lt; lra).
  apply total_integers.
  - rewrite <- mixed_powers, <- sum_scale.
    set (f := fun n => geometric_mass q2 (Z.of_nat n) * geometric_mass q1 (Z.of_nat k - Z.of_nat n)).
    rewrite (sum_ext _ f).
    + apply total_from.
      * intros n. unfold f. left. apply Rmult_lt_0_compat; apply geometric_pos; lra.
      * apply (total_ext (fun n => c * (q2 ^ S k * q1) * (q1 * q2) ^ n)).
        { intros n. unfold f, geometric_mass.
          replace (Z.abs_nat (Z.of_nat (S k + n))) with (S k + n)%nat by lia.
          replace (Z.abs_nat (Z.of_nat k - Z.of_nat (S k + n))) with (S n) by lia.
          rewrite pow_add, Rpow_mult_distr. unfold c. simpl. ring. }
        apply total_geometric; auto. left. apply Rmult_lt_0_compat; [exact C|]. apply Rmult_lt_0_compat; [auto|lra].
    + intros n H. apply in_seq in H. unfold f, geometric_mass.
      replace (Z.abs_nat (Z.of_nat n)) with n by lia.
      replace (Z.abs_nat (Z.of_nat k - Z.of_nat n)) with (k - n)%nat by lia. unfold c. ring.
  - apply (total_ext (fun n => c * (q1 ^ S k * q2) * (q1 * q2) ^ n)).
    { intros n. unfold geometric_mass.
      replace (Z.abs_nat (-1 - Z.of_nat n)) with (S n) by lia.
      replace (Z.abs_nat (Z.of_nat k - (-1 - Z.of_nat n))) with (S k + n)%nat by lia.
      rewrite pow_add, Rpow_mult_distr. unfold c. simpl. ring. }
    apply total_geometric; auto. left. apply Rmult_lt_0_compat; [exact C|]. apply Rmult_lt_0_compat; [auto|lra].
Qed.

Lemma refinement_right k : total (fun z => geometric_mass q2 z * extra (Z.of_nat k - z)) (geometric_mass q1 (Z.of_nat k)).
Proof.
  pose proof still_range. pose proof (geometric_pos q2 range2 (Z.of_nat k)).
  assert (E : geometric_mass q1 (Z.of_nat k) = geometric_mass q2 (Z.of_nat k) * still + (1 - still) * crossed k).
  { unfold geometric_mass, crossed, still. replace (Z.abs_nat (Z.of_nat k)) with k by lia. simpl. field. nra. }
  rewrite E.
  apply (total_ext (fun z => (if Z.eq_dec z (Z.of_nat k) then geometric_mass q2 (Z.of_nat k) * still else 0)
                        + (1 - still) * (geometric_mass q2 z * geometric_mass q1 (Z.of_nat k - z)))).
  { intros z. unfold extra. destruct (Z.eq_dec z (Z.of_nat k)) as [->|N].
    - destruct (Z.eq_dec (Z.of_nat k - Z.of_nat k) 0); [ring|lia].
    - destruct (Z.eq_dec (Z.of_nat k - z) 0); [lia|ring]. }
  apply total_plus.
  - intros z. destruct (Z.eq_dec z (Z.of_nat k)); nra.
  - intros z. apply Rmult_le_pos; [lra|]. left. apply Rmult_lt_0_compat; apply geometric_pos; lra.
  - apply Z.eq_dec.
  - apply point_total. nra.
  - apply total_scale; [lra|]. apply convolution.
Qed.

(** Theorem (the identity). P_q1 is the convolution of P_q2 and W. *)
Theorem refinement_identity k : total (fun z => geometric_mass q2 z * extra (k - z)) (geometric_mass q1 k).
Proof.
  destruct (Z.le_gt_cases 0 k) as [L|L].
  - rewrite <- (Z2Nat.id k L). apply refinement_right.
  - pose proof (refinement_right (Z.to_nat (- k))) as T. rewrite Z2Nat.id, geometric_mirror in T by lia.
    apply total_mirror in T. eapply total_ext; [|exact T]. intros z. cbv beta. rewrite geometric_mirror. f_equal.
    assert (X : forall j, extra (- j) = extra j).
    { intros j. unfold extra. rewrite geometric_mirror. destruct (Z.eq_dec (- j) 0), (Z.eq_dec j 0); auto; lia. }
    rewrite <- X. f_equal. lia.
Qed.

(** The law of the smaller noise, given the larger one. *)
Definition conditional (z1 : Z) : law Z.
Proof.
  pose proof (geometric_pos q1 range1 z1) as G.
  refine {| mass := fun z2 => / geometric_mass q1 z1 * (geometric_mass q2 z2 * extra (z1 - z2)) |}.
  - intros z2. apply Rmult_le_pos; [left; apply Rinv_0_lt_compat; auto|].
    apply Rmult_le_pos; [left; apply geometric_pos, range2|apply extra_nonneg].
  - rewrite <- (Rinv_l (geometric_mass q1 z1)) by lra.
    apply total_scale; [left; apply Rinv_0_lt_compat; auto|]. apply refinement_identity.
Defined.

(** A finer answer beside the answer [y1], for the true value [x]. *)
Definition refined (x y1 : Z) : law Z.
Proof.
  refine {| mass := fun y2 => conditional (y1 - x) (y2 - x)%Z; mass_nonneg := fun y2 => mass_nonneg (conditional (y1 - x)) (y2 - x)%Z |}.
  apply (total_translate _ x), mass_total.
Defined.

(** Theorem (joint law). The pair has the law of a fresh finer answer, and of noise on it that does not depend on x. *)
Theorem refined_joint x y1 y2 :
  noisy q1 range1 x y1 * refined x y1 y2 = noisy q2 range2 x y2 * extra (y1 - y2).
Proof.
  simpl. pose proof (geometric_pos q1 range1 (y1 - x)). replace (y1 - x - (y2 - x))%Z with (y1 - y2)%Z by lia.
  field. lra.
Qed.

(** Theorem. The finer answer alone has exactly the law of a fresh one. *)
Theorem refined_marginal x y2 : total (fun y1 => noisy q1 range1 x y1 * refined x y1 y2) (noisy q2 range2 x y2).
Proof.
  apply (total_ext (fun y1 => noisy q2 range2 x y2 * extra (y1 - y2))); [intros; rewrite refined_joint; reflexivity|].
  pose proof (total_scale _ _ _ (mass_nonneg (noisy q2 range2 x) y2) (total_translate _ y2 _ extra_sums_to_one)) as T.
  rewrite Rmult_1_r in T. exact T.
Qed.

(** Theorem. The pair costs what the finer answer costs: (1/q2)^d. *)
Theorem refined_pair_private {Data} (near : Data -> Data -> Prop) (query : Data -> Z) d :
  (forall D D', near D D' -> (Z.abs_nat (query D - query D') <= d)%nat) ->
  private near ((/ q2) ^ d) (fun D => joint Z.eq_dec (noisy q1 range1 (query D)) (refined (query D))).
Proof.
  intros S D D' N (y1, y2).
  change (noisy q1 range1 (query D) y1 * refined (query D) y1 y2
          <= (/ q2) ^ d * (noisy q1 range1 (query D') y1 * refined (query D') y1 y2)).
  rewrite !refined_joint, <- Rmult_assoc. apply Rmult_le_compat_r; [apply extra_nonneg|].
  apply (geometric_mechanism q2 range2 near query d S); auto.
Qed.
End Identity.

(** ** Refinement inside an adaptive interaction *)

Section Transcripts.
Context {Data Measure Coin : Type} (EM : decidable_equality Measure).
Variables (value : Measure -> Data -> Z) (reach : Measure -> nat).

(** A question: a measurement at a level of noise. *)
Record level := { ratio : R; ratio_range : 0 < ratio < 1 }.
Definition Question : Type := (Measure * level)%type.
Local Notation entry := (@entry Question Z Coin).

(** The latest answer of each measurement. *)
Definition view : Type := (Measure * (level * Z))%type.

Fixpoint lookup (m : Measure) (vs : list view) : option (level * Z) :=
  match vs with
  | [] => None
  | (m', v) :: vs => if EM m m' then Some v else lookup m vs
  end.

Fixpoint drop (m : Measure) (vs : list view) : list view :=
  match vs with
  | [] => []
  | (m', v) :: vs => if EM m m' then vs else (m', v) :: drop m vs
  end.

Fixpoint views (h : list entry) : list view :=
  match h with
  | [] => []
  | Charged (m, q) a :: h => (m, (q, a)) :: drop m (views h)
  | _ :: h => views h
  end.

(** Fresh noise for a first answer; the conditional law, given the latest answer only, for a finer one. *)
Definition release (h : list entry) (q : Question) (D : Data) : law Z :=
  match lookup (fst q) (views h) with
  | None => noisy (ratio (snd q)) (ratio_range (snd q)) (value (fst q) D)
  | Some (old, y1) =>
      match Rlt_dec (ratio (snd q)) (ratio old) with
      | left L => refined (ratio old) (ratio (snd q)) (conj (proj1 (ratio_range (snd q))) L) (proj2 (ratio_range old))
                    (value (fst q) D) y1
      | right _ => noisy (ratio (snd q)) (ratio_range (snd q)) (value (fst q) D)
      end
  end.

(** A measurement is asked again only with less noise. *)
Definition finer (h : list entry) (q : Question) : Prop :=
  match lookup (fst q) (views h) with None => True | Some (old, _) => ratio (snd q) < ratio old end.

(** What all answers together cost: each measurement counts once, at its finest level. *)
Fixpoint price (vs : list view) : R :=
  match vs with
  | [] => 1
  | (m, (q, _)) :: vs => (/ ratio q) ^ reach m * price vs
  end.

Fixpoint shown (D : Data) (vs : list view) : R :=
  match vs with
  | [] => 1
  | (m, (q, a)) :: vs => noisy (ratio q) (ratio_range q) (value m D) a * shown D vs
  end.

(** The factor of a history that is the same for every database. *)
Fixpoint coarser (h : list entry) : R :=
  match h with
  | [] => 1
  | Charged (m, q) a :: h =>
      match lookup m (views h) with
      | None => 1
      | Some (old, y1) => extra (ratio old) (ratio q) (y1 - a)
      end * coarser h
  | _ :: h => coarser h
  end.

Lemma shown_drop D m vs : shown D vs =
  match lookup m vs with None => 1 | Some (q, a) => noisy (ratio q) (ratio_range q) (value m D) a end * shown D (drop m vs).
Proof.
  induction vs as [|(m', (q, a)) vs IH]; cbn [lookup drop shown]; [ring|].
  destruct (EM m m') as [<-|N]; [reflexivity|]. cbn [shown]. rewrite IH. ring.
Qed.

(** Histories in which every repetition was finer. *)
Fixpoint sound (h : list entry) : Prop :=
  match h with
  | [] => True
  | Charged q _ :: h => finer h q /\ sound h
  | _ :: h => sound h
  end.

Lemma noisy_any q r1 r2 x y : mass (noisy q r1 x) y = mass (noisy q r2 x) y.
Proof. reflexivity. Qed.

Lemma history_factors h D : sound h -> likelihood release h D = coarser h * shown D (views h).
Proof.
  induction h as [|[c|(m, q) a|q|q] h IH]; cbn [likelihood coarser views sound shown]; auto; [intros _; ring|].
  intros [F S]. rewrite (IH S), (shown_drop D m (views h)). unfold release, finer in *. cbn [fst snd] in *.
  destruct (lookup m (views h)) as [(old, y1)|].
  - destruct (Rlt_dec (ratio q) (ratio old)) as [L|L]; [|contradiction].
    pose proof (refined_joint (ratio old) (ratio q) (conj (proj1 (ratio_range q)) L) (proj2 (ratio_range old)) (value m D) y1 a) as J.
    rewrite (noisy_any _ _ (ratio_range old)), (noisy_any _ _ (ratio_range q)) in J.
    set (R0 := mass (refined _ _ _ _ _ _) a) in *.
    set (N1 := mass (noisy (ratio old) _ _) _) in *. set (N2 := mass (noisy (ratio q) _ _) _) in *.
    replace (R0 * (coarser h * (N1 * shown D (drop m (views h))))) with (N1 * R0 * coarser h * shown D (drop m (views h))) by ring.
    rewrite J. ring.
  - ring.
Qed.

Variables (D D' : Data).
Hypothesis close : forall m, (Z.abs_nat (value m D - value m D') <= reach m)%nat.

Lemma shown_nonneg X vs : 0 <= shown X vs.
Proof. induction vs as [|(m, (q, a)) vs IH]; simpl; [lra|]. apply Rmult_le_pos; auto. left. apply geometric_pos, ratio_range. Qed.

Lemma shown_price vs : shown D vs <= price vs * shown D' vs.
Proof.
  induction vs as [|(m, (q, a)) vs IH]; cbn [shown price]; [lra|].
  apply Rle_trans with ((/ ratio q) ^ reach m * noisy (ratio q) (ratio_range q) (value m D') a * (price vs * shown D' vs)); [|lra].
  apply Rmult_le_compat; auto using shown_nonneg, mass_nonneg.
  apply (geometric_mechanism (ratio q) (ratio_range q) (fun X X' => (Z.abs_nat (value m X - value m X') <= reach m)%nat)
           (value m) (reach m)); auto.
Qed.

Lemma coarser_nonneg h : sound h -> 0 <= coarser h.
Proof.
  induction h as [|[c|(m, q) a|q|q] h IH]; cbn [coarser sound]; auto; [intros _; lra|]. intros [F S].
  apply Rmult_le_pos; auto. unfold finer in F. cbn [fst snd] in F. destruct (lookup m (views h)) as [(old, y1)|]; [|lra].
  apply extra_nonneg; [pose proof (ratio_range q); lra|apply (ratio_range old)].
Qed.

Context (decide : list entry -> Question -> @decision Z).
Hypothesis only_finer : forall h q, decide h q = Fresh -> finer h q.

Lemma final_sound s t : sound (final decide s [] t).
Proof. apply (final_invariant decide sound); simpl; auto. Qed.

(** Theorem. For every adaptive analyst, at every moment, the loss is at most the price of the finest levels. *)
Theorem refinement_odometer s t :
  run decide release s [] D t <= price (views (final decide s [] t)) * run decide release s [] D' t.
Proof.
  rewrite !run_start. pose proof (final_sound s t) as S. rewrite !history_factors by auto.
  pose proof (tossed_nonneg decide s [] t). pose proof (coarser_nonneg _ S). pose proof (shown_price (views (final decide s [] t))).
  set (T := tossed decide s [] t) in *. set (C := coarser _) in *. set (V := views _) in *.
  apply Rle_trans with (T * (C * (price V * shown D' V))); [|right; ring].
  apply Rmult_le_compat_l; auto. apply Rmult_le_compat_l; auto.
Qed.

(** Theorem. A filter that accepts a refinement if the finest levels fit into the budget keeps the budget. *)
Theorem refinement_adaptive B : 1 <= B ->
  (forall h q a, decide h q = Fresh -> price (views (Charged q a :: h)) <= B) ->
  forall s t, run decide release s [] D t <= B * run decide release s [] D' t.
Proof.
  intros B1 H s t. apply Rle_trans with (1 := refinement_odometer s t).
  apply Rmult_le_compat_r; [apply run_nonneg|].
  apply (final_invariant decide (fun h => price (views h) <= B)); auto.
Qed.
End Transcripts.

(** ** Moments: charging the difference is wrong there *)

(** The truth is a bit, the finer answer is right with probability 3/4, and the coarser one repeats the finer one with
    probability 3/4. An analyst refines only after the coarser answer [false]. *)
Section Moments.
Let fine (truth y2 : bool) : R := if Bool.eqb truth y2 then 3 / 4 else 1 / 4.
Let blur (y2 y1 : bool) : R := if Bool.eqb y2 y1 then 3 / 4 else 1 / 4.
Let coarse (truth y1 : bool) : R := fine truth true * blur true y1 + fine truth false * blur false y1.

(** E[P/Q], the moment of order 2, of one answer alone. *)
Let moment (answer : bool -> bool -> R) : R :=
  answer true true * (answer true true / answer false true) + answer true false * (answer true false / answer false false).

(** The mean of (P/Q)/(the moment of what was charged) over all transcripts. It should be at most 1, and is 1.09. *)
Let mean : R :=
  coarse true true * (coarse true true / coarse false true) / moment coarse
  + (fine true true * blur true false * (fine true true / fine false true)
     + fine true false * blur false false * (fine true false / fine false false)) / moment fine.

Theorem refinement_by_moments_leaks : 1 < mean.
Proof.
  assert (C1 : coarse true true = 5 / 8) by (unfold coarse, fine, blur; simpl; lra).
  assert (C2 : coarse true false = 3 / 8) by (unfold coarse, fine, blur; simpl; lra).
  assert (C3 : coarse false true = 3 / 8) by (unfold coarse, fine, blur; simpl; lra).
  assert (C4 : coarse false false = 5 / 8) by (unfold coarse, fine, blur; simpl; lra).
  assert (M1 : moment coarse = 19 / 15) by (unfold moment; rewrite C1, C2, C3, C4; field).
  assert (M2 : moment fine = 7 / 3) by (unfold moment, fine; simpl; field).
  unfold mean. rewrite M1, M2, C1, C3. unfold fine, blur. simpl.
  replace (5 / 8 * (5 / 8 / (3 / 8)) / (19 / 15)) with (125 / 152) by field.
  replace ((3 / 4 * (1 / 4) * (3 / 4 / (1 / 4)) + 1 / 4 * (3 / 4) * (1 / 4 / (3 / 4))) / (7 / 3)) with (15 / 56) by field.
  lra.
Qed.
End Moments.

(** ** The conditional law as exact fractions, executable *)

Open Scope Q_scope.
Fixpoint powQ (q : Q) (n : nat) : Q := match n with O => 1 | S n => Qred (q * powQ q n) end.
Definition geometricQ (q : Q) (k : Z) : Q := Qred ((1 - q) / (1 + q) * powQ q (Z.abs_nat k)).
Definition stillQ (q1 q2 : Q) : Q := Qred (((1 - q1) / (1 - q2)) * ((1 - q1) / (1 - q2)) * (q2 / q1)).
Definition extraQ (q1 q2 : Q) (j : Z) : Q :=
  Qred ((if Z.eq_dec j 0 then stillQ q1 q2 else 0) + (1 - stillQ q1 q2) * geometricQ q1 j).
Definition conditionalQ (q1 q2 : Q) (z1 z2 : Z) : Q :=
  Qred (/ geometricQ q1 z1 * (geometricQ q2 z2 * extraQ q1 q2 (z1 - z2))).
Open Scope R_scope.

Lemma Q2R_red q : Q2R (Qred q) = Q2R q.
Proof. apply Qeq_eqR, Qred_correct. Qed.

Lemma Q2R_1 : Q2R 1 = 1.
Proof. unfold Q2R. simpl. lra. Qed.

Lemma Q2R_0 : Q2R 0 = 0.
Proof. unfold Q2R. simpl. lra. Qed.

Lemma powQ_ok q n : Q2R (powQ q n) = Q2R q ^ n.
Proof. induction n; cbn [powQ pow]; [apply Q2R_1|]. rewrite Q2R_red, Q2R_mult, IHn. reflexivity. Qed.

Lemma Q2R_nonzero q : Q2R q <> 0 -> ~ (q == 0)%Q.
Proof. intros H E. apply H. rewrite (Qeq_eqR _ _ E). unfold Q2R. simpl. lra. Qed.

Lemma geometricQ_ok q k : 0 < Q2R q -> Q2R (geometricQ q k) = geometric_mass (Q2R q) k.
Proof.
  intros P. unfold geometricQ, geometric_mass. rewrite Q2R_red, Q2R_mult, powQ_ok, Q2R_div, Q2R_minus, Q2R_plus, Q2R_1.
  - reflexivity.
  - apply Q2R_nonzero. rewrite Q2R_plus, Q2R_1. lra.
Qed.

(** Theorem. The fractions are the law. *)
Theorem conditionalQ_ok q1 q2 z1 z2 (o : 0 < Q2R q2 < Q2R q1) (l : Q2R q1 < 1) :
  Q2R (conditionalQ q1 q2 z1 z2) = conditional (Q2R q1) (Q2R q2) o l z1 z2.
Proof.
  assert (S : Q2R (stillQ q1 q2) = still (Q2R q1) (Q2R q2)).
  { unfold stillQ, still. rewrite Q2R_red, !Q2R_mult, !Q2R_div, !Q2R_minus, Q2R_1; [simpl; ring| |].
    - apply Q2R_nonzero. lra.
    - apply Q2R_nonzero. rewrite Q2R_minus, Q2R_1. lra. }
  assert (E : Q2R (extraQ q1 q2 (z1 - z2)) = extra (Q2R q1) (Q2R q2) (z1 - z2)).
  { unfold extraQ, extra. rewrite Q2R_red, Q2R_plus, Q2R_mult, Q2R_minus, Q2R_1, S, geometricQ_ok by lra.
    destruct (Z.eq_dec (z1 - z2) 0); [rewrite S|rewrite Q2R_0]; reflexivity. }
  assert (N : ~ (geometricQ q1 z1 == 0)%Q).
  { apply Q2R_nonzero. rewrite geometricQ_ok by lra. pose proof (geometric_pos (Q2R q1) (conj (Rlt_trans _ _ _ (proj1 o) (proj2 o)) l) z1). lra. }
  unfold conditionalQ. rewrite Q2R_red, Q2R_mult, Q2R_inv by exact N. rewrite Q2R_mult, E, !geometricQ_ok by lra. reflexivity.
Qed.
